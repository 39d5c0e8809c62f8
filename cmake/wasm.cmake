# Builds the modules <build>/<name>/heed.{mjs,wasm}: simd128 and relaxed-simd, the same with training (train-<name>), and
# without training for shared-memory threads (threads-<name>). They have the same file name, so that the JavaScript glue of
# a pair is identical and is shipped once.

target_compile_options(heed-flags INTERFACE
  # The same for all sources, since functions are inlined only into functions with the same features. Relaxed instructions
  # are used under HEED_RELAXED_SIMD alone; the links below check that modules without it have none.
  -msimd128 -mrelaxed-simd
  # Every engine with SIMD also supports bulk memory and saturating float conversions.
  -mbulk-memory -mnontrapping-fptoint
  # No run-time type information: embind can identify types by address, and the mangled names take 2 KB of the download.
  -fno-rtti
  # Native WebAssembly exceptions, which all maintained engines with SIMD support. The JavaScript-based scheme makes the
  # module a third larger and leaves WebAssembly on every call that may throw.
  -fwasm-exceptions)
target_compile_definitions(heed-flags INTERFACE EMSCRIPTEN_HAS_UNBOUND_TYPE_NAMES=0) # embind requires it with -fno-rtti
# Without a limit, Binaryen inlines every function that has one caller, also those that are marked noinline.
set(keep_functions --one-caller-inline-max-function-size=200)
target_link_options(heed-flags INTERFACE
  -fwasm-exceptions
  -fno-rtti
  -lembind                    # the bindings
  -sMODULARIZE -sEXPORT_ES6   # a factory function in an ES module, so that several runtimes can coexist
  # No Node code in the glue: web/src/base/wasm/module.ts loads the bytes (instantiateWasm), so the glue runs in Node without an
  # `import("node:…")`, which bundlers fail on.
  -sENVIRONMENT=web,worker
  -sUSE_ES6_IMPORT_META=0     # no `new URL("heed.wasm", import.meta.url)`, which bundlers would try to resolve
  -sDYNAMIC_EXECUTION=0       # no eval and no new Function, for strict content security policies
  -sEMBIND_AOT                # generates embind's invokers at link time, which needs no new Function and is faster
  -sFILESYSTEM=0              # the module reads no files
  -sALLOW_MEMORY_GROWTH       # memory grows with the model
  -sINITIAL_MEMORY=1MB        # stack and static data, with some reserve
  -sMAXIMUM_MEMORY=4GB        # the maximum with 32-bit addresses; the default is 2 GB
  -sABORTING_MALLOC=0         # failed allocations throw std::bad_alloc, which becomes an error, instead of aborting
  -sSTACK_SIZE=256KB          # the default 64 KB is little for Eigen's temporaries
  -sMALLOC=none               # heed-malloc, below
  # Drops the glue's support for every other option, printing included. module.ts makes the memory that threads share.
  -sINCOMING_MODULE_JS_API=instantiateWasm,wasmMemory
  # A JavaScript exception that unwinds WebAssembly frames does not restore the stack pointer; module.ts does.
  -sEXPORTED_RUNTIME_METHODS=stackSave,stackRestore
  -sTEXTDECODER=2             # no fallback for TextDecoder, which exists everywhere
  -sPOLYFILL=0                # no polyfills for language features older than SIMD
  -sSUPPORT_LONGJMP=0         # unused
  -sBINARYEN_EXTRA_PASSES=${keep_functions})

if(CMAKE_BUILD_TYPE STREQUAL Debug)
  target_link_options(heed-flags INTERFACE -sASSERTIONS=2 -sSAFE_HEAP=1 -sSTACK_OVERFLOW_CHECK=2)
else()
  # Products and the operations with the most arithmetic are optimized for speed, everything else for size: -O2 is 3 %
  # faster in int8 than -Os and 2 KB larger. Loops that must be unrolled are marked with HEED_UNROLL, independent of the level.
  set(CMAKE_CXX_FLAGS_RELEASE "-Oz -DNDEBUG")
  set(for_speed -O2)
  target_compile_options(heed-flags INTERFACE -flto) # 5 % smaller, and inlines small functions across files
  target_link_options(heed-flags INTERFACE -flto -sASSERTIONS=0)
endif()

# emmalloc is 5 KB smaller than dlmalloc, and activations live in an arena, so its speed does not matter. Its test whether
# an allocation fits into a free region adds address and size, which wraps near 4 GB and then corrupts memory; ours compares
# without the sum.
set(emmalloc_overflows "payloadStartPtrAligned + size > payloadEndPtr")
file(READ ${EMSCRIPTEN_ROOT_PATH}/system/lib/emmalloc.c emmalloc)
string(FIND "${emmalloc}" "${emmalloc_overflows}" position)
if(position EQUAL -1)
  message(STATUS "emmalloc.c of this Emscripten has no such test and is used as it is")
endif()
string(REPLACE "${emmalloc_overflows}"
  "payloadStartPtrAligned > payloadEndPtr || size > (size_t)(payloadEndPtr - payloadStartPtrAligned)"
  emmalloc "${emmalloc}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/emmalloc.c CONTENT "${emmalloc}" @ONLY)
enable_language(C)
function(heed_malloc name)
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/emmalloc.c)
  target_compile_options(${name} PRIVATE -Oz -flto -fno-builtin -w ${ARGN})
endfunction()

# EMBIND_AOT runs the module while linking, in Emscripten's own Node. Node 20 has relaxed SIMD behind a flag.
execute_process(COMMAND ${EMSCRIPTEN_ROOT_PATH}/em-config NODE_JS OUTPUT_VARIABLE node OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX REPLACE "^\\['|'.*$" "" node "${node}")
execute_process(COMMAND ${node} --version OUTPUT_VARIABLE node_version OUTPUT_STRIP_TRAILING_WHITESPACE)
if(node_version MATCHES "^v20\\.")
  set(node_wrapper ${CMAKE_BINARY_DIR}/node)
  file(WRITE ${node_wrapper} "#!/bin/sh\nexec '${node}' --experimental-wasm-relaxed-simd \"$@\"\n")
  file(CHMOD ${node_wrapper} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(CMAKE_CXX_LINKER_LAUNCHER ${CMAKE_COMMAND} -E env EM_NODE_JS=${node_wrapper})
endif()

# Of Emscripten's support for threads only the libraries are used; web/src/worker/thread.ts starts the threads.
set(threads -sWASM_WORKERS)
heed_malloc(heed-malloc)
heed_malloc(heed-malloc-threads ${threads})

# An object library heed-<name> of the sources after SOURCES, compiled with the flags after FLAGS. Its precompiled header has the
# headers after HEADERS, or is that of the library heed-<SHARE>, which has the same flags.
function(heed_objects name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SHARE" "SOURCES;HEADERS;FLAGS")
  add_library(heed-${name} OBJECT ${arg_SOURCES})
  target_link_libraries(heed-${name} PRIVATE heed-flags)
  target_compile_options(heed-${name} PRIVATE ${arg_FLAGS})
  if(arg_SHARE)
    target_precompile_headers(heed-${name} REUSE_FROM heed-${arg_SHARE})
  else()
    target_precompile_headers(heed-${name} PRIVATE ${arg_HEADERS})
  endif()
endfunction()

# What all modules share.
set(binding_headers ${core_headers} <emscripten/bind.h> <emscripten/val.h>)
heed_objects(core SOURCES ${core_sources} HEADERS ${core_headers})
heed_objects(one-thread SOURCES ${one_thread_sources} SHARE core)
heed_objects(bindings SOURCES ${binding_sources} HEADERS ${binding_headers})
heed_objects(train SOURCES ${train_sources} SHARE core)
heed_objects(train-bindings SOURCES ${train_binding_sources} SHARE bindings)
# Only these need atomic instructions: link-time optimization gives all code of a module the features of any part of it.
heed_objects(threads SOURCES ${thread_sources} HEADERS ${binding_headers} FLAGS ${threads})

# A module of the libraries heed-<name> after OBJECTS, linked with the flags after FLAGS.
function(heed_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OBJECTS;FLAGS")
  list(TRANSFORM arg_OBJECTS REPLACE "(.+)" "$<TARGET_OBJECTS:heed-\\1>")
  add_executable(heed-${name} ${arg_OBJECTS})
  target_link_libraries(heed-${name} PRIVATE heed-flags)
  target_link_options(heed-${name} PRIVATE ${arg_FLAGS})
  set_target_properties(heed-${name} PROPERTIES LINKER_LANGUAGE CXX
    OUTPUT_NAME heed SUFFIX .mjs RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${name})
endfunction()

# The modules with the same SIMD instructions: <name> for inference; train-<name>, which adds training to the same objects;
# and threads-<name>. Kernels are compiled with the flags after COMPILE, modules linked with those after LINK.
set(fast_sources ${kernel_sources} ${train_kernel_sources})
list(FILTER fast_sources INCLUDE REGEX
  "/src/(gemm/|ops/(activation|layer_norm|mask|softmax|trellis_decode|vector_products|vectors)\\.cpp$)")
function(heed_modules name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMPILE;LINK;VALIDATE")
  set(flags -DHEED_KERNEL ${arg_COMPILE})
  foreach(part kernel train_kernel)
    set(${part}_fast ${${part}_sources})
    list(REMOVE_ITEM ${part}_sources ${fast_sources})
    list(REMOVE_ITEM ${part}_fast ${${part}_sources})
  endforeach()
  heed_objects(fast-${name} SOURCES ${kernel_fast} HEADERS ${core_headers} FLAGS ${flags} ${for_speed})
  heed_objects(kernels-${name} SOURCES ${kernel_sources} HEADERS ${core_headers} FLAGS ${flags})
  heed_objects(train-fast-${name} SOURCES ${train_kernel_fast} SHARE fast-${name} FLAGS ${flags} ${for_speed})
  heed_objects(train-kernels-${name} SOURCES ${train_kernel_sources} SHARE kernels-${name} FLAGS ${flags})

  set(inference core bindings kernels-${name} fast-${name})
  heed_module(${name} OBJECTS malloc one-thread ${inference} FLAGS ${arg_LINK})
  heed_module(train-${name}
    OBJECTS malloc one-thread ${inference} train train-bindings train-kernels-${name} train-fast-${name}
    FLAGS ${arg_LINK})
  heed_module(threads-${name} OBJECTS malloc-threads threads ${inference} FLAGS ${arg_LINK} ${threads})
  foreach(module ${name} train-${name} threads-${name})
    add_custom_command(TARGET heed-${module} POST_BUILD VERBATIM
      COMMAND ${wasm_opt} --mvp-features ${features} ${arg_VALIDATE} -Oz --converge ${keep_functions}
        ${CMAKE_BINARY_DIR}/${module}/heed.wasm -o ${CMAKE_BINARY_DIR}/${module}/heed.wasm)
  endforeach()
endfunction()

# Binaryen fails on instructions of other features. Its second pass for size, after that of the link, saves 0.3 KB of download.
execute_process(COMMAND ${EMSCRIPTEN_ROOT_PATH}/em-config BINARYEN_ROOT OUTPUT_VARIABLE binaryen OUTPUT_STRIP_TRAILING_WHITESPACE)
set(wasm_opt ${binaryen}/bin/wasm-opt)
set(features --enable-simd --enable-bulk-memory --enable-nontrapping-float-to-int --enable-exception-handling
  --enable-sign-ext --enable-mutable-globals --enable-multivalue --enable-reference-types --enable-threads)
heed_modules(simd128 LINK -msimd128)
heed_modules(relaxed-simd COMPILE -DHEED_RELAXED_SIMD LINK -msimd128 -mrelaxed-simd VALIDATE --enable-relaxed-simd)

# All objects without the links, so that the build reports the seconds of each.
get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
add_custom_target(objects)
foreach(target ${targets})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL OBJECT_LIBRARY)
    add_dependencies(objects ${target})
  endif()
endforeach()

# All sources as one unit, which lint parses: a name at namespace scope that two headers or sources define is an error there. In
# headers it would violate the one-definition rule, which no compiler or linker reports across units.
add_library(heed-one-unit OBJECT EXCLUDE_FROM_ALL
  ${core_sources} ${kernel_sources} ${train_sources} ${train_kernel_sources} ${binding_sources} ${train_binding_sources}
  ${thread_sources})
target_link_libraries(heed-one-unit PRIVATE heed-flags)
target_compile_definitions(heed-one-unit PRIVATE HEED_KERNEL HEED_RELAXED_SIMD)
target_compile_options(heed-one-unit PRIVATE -fsyntax-only ${threads})
set_target_properties(heed-one-unit PROPERTIES
  UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0 EXPORT_COMPILE_COMMANDS OFF)
