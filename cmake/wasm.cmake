# Builds the modules <build>/<name>/heed.{mjs,wasm}: simd128 and relaxed-simd, the same with training (train-<name>), and
# without training for shared-memory threads (threads-<name>). They have the same file name, so that the JavaScript glue of
# a pair is identical and is shipped once.

target_compile_options(heed-flags INTERFACE
  -msimd128
  # Every engine with SIMD also supports bulk memory and saturating float conversions.
  -mbulk-memory -mnontrapping-fptoint
  # No run-time type information: embind can identify types by address, and the mangled names take 2 KB of the download.
  -fno-rtti
  # Native WebAssembly exceptions, which all maintained engines with SIMD support. The JavaScript-based scheme makes the
  # module a third larger and leaves WebAssembly on every call that may throw.
  -fwasm-exceptions)
target_compile_definitions(heed-flags INTERFACE EMSCRIPTEN_HAS_UNBOUND_TYPE_NAMES=0) # embind requires it with -fno-rtti
target_link_options(heed-flags INTERFACE
  -fwasm-exceptions
  -fno-rtti
  -lembind                    # the bindings
  -sMODULARIZE -sEXPORT_ES6   # a factory function in an ES module, so that several runtimes can coexist
  # No Node code in the glue: web/src/module.ts loads the bytes (instantiateWasm), so the glue runs in Node without an
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
  -sSUPPORT_LONGJMP=0)        # unused

if(CMAKE_BUILD_TYPE STREQUAL Debug)
  target_link_options(heed-flags INTERFACE -sASSERTIONS=2 -sSAFE_HEAP=1 -sSTACK_OVERFLOW_CHECK=2)
else()
  # Code outside the kernels is optimized for size, kernels for speed: -O2 is 3 % faster in int8 than -Os and 2 KB larger.
  # Loops that must be unrolled are marked with HEED_UNROLL, independent of the level.
  set(CMAKE_CXX_FLAGS_RELEASE "-Oz -DNDEBUG")
  file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS cpp/src/gemm/*.cpp)
  list(APPEND kernel_sources cpp/src/ops/activation.cpp cpp/src/ops/layer_norm.cpp cpp/src/ops/mask.cpp cpp/src/ops/softmax.cpp)
  foreach(kernel panel_products vectors)
    list(APPEND kernel_sources cpp/src/train/ops/${kernel}.cpp)
  endforeach()
  set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS -O2)
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
set(threads -sWASM_WORKERS -DHEED_THREADS)
heed_malloc(heed-malloc)
heed_malloc(heed-malloc-threads ${threads})

# An object library heed-core-<name> of the core and its bindings, compiled with the flags `ARGN`.
function(heed_core name)
  add_library(heed-core-${name} OBJECT ${core_sources} ${binding_sources})
  target_link_libraries(heed-core-${name} PRIVATE heed-flags)
  target_compile_options(heed-core-${name} PRIVATE ${ARGN})
endfunction()

# A module of the objects of the libraries `malloc` and `core`, linked with the flags `ARGN`.
function(heed_module name malloc core)
  add_executable(heed-${name} $<TARGET_OBJECTS:${malloc}> $<TARGET_OBJECTS:${core}>)
  target_link_libraries(heed-${name} PRIVATE heed-flags)
  target_link_options(heed-${name} PRIVATE ${ARGN})
  set_target_properties(heed-${name} PROPERTIES LINKER_LANGUAGE CXX
    OUTPUT_NAME heed SUFFIX .mjs RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${name})
endfunction()

# The modules with the same SIMD instructions: <name> for inference; train-<name>, which adds training to the same objects;
# and threads-<name>, whose objects are compiled for shared memory.
function(heed_modules name)
  heed_core(${name} ${ARGN})
  heed_module(${name} heed-malloc heed-core-${name} ${ARGN})
  heed_module(train-${name} heed-malloc heed-core-${name} ${ARGN})
  target_sources(heed-train-${name} PRIVATE ${train_sources} ${train_binding_sources})
  target_compile_options(heed-train-${name} PRIVATE ${ARGN})
  heed_core(threads-${name} ${ARGN} ${threads})
  heed_module(threads-${name} heed-malloc-threads heed-core-threads-${name} ${ARGN} ${threads})
endfunction()

heed_modules(simd128 -msimd128)
heed_modules(relaxed-simd -msimd128 -mrelaxed-simd)
