# The two modules, from one source: <build>/simd128/heed.{mjs,wasm} and <build>/relaxed-simd/heed.{mjs,wasm}. They carry the
# same file name, so that their glue can be the same byte for byte and is shipped once.

target_compile_options(heed-flags INTERFACE
  -msimd128
  # Every engine that has SIMD has these too: copies and fills, and conversions of floats, by one instruction each.
  -mbulk-memory -mnontrapping-fptoint
  # No run-time type names: embind can tell types apart by address, and their mangled names are 2 KB of the download.
  -fno-rtti
  # C++ exceptions as WebAssembly exceptions: the JavaScript-based scheme costs a third of the size and calls out at every
  # throwing call. All engines that have SIMD and are still updated have them.
  -fwasm-exceptions)
target_compile_definitions(heed-flags INTERFACE EMSCRIPTEN_HAS_UNBOUND_TYPE_NAMES=0) # what -fno-rtti asks of embind
target_link_options(heed-flags INTERFACE
  -fwasm-exceptions
  -fno-rtti
  -lembind                    # the bindings
  -sMODULARIZE -sEXPORT_ES6   # a factory function in an ES module: several runtimes may live side by side
  # No Node in the glue: web/src/module.ts brings the bytes (instantiateWasm), so the glue has no `import("node:…")` that a
  # bundler would stumble over, and runs in Node all the same.
  -sENVIRONMENT=web,worker
  -sUSE_ES6_IMPORT_META=0     # nor a `new URL("heed.wasm", import.meta.url)` that a bundler would look for
  -sDYNAMIC_EXECUTION=0       # no eval, no new Function: strict Content-Security-Policy
  -sEMBIND_AOT                # embind's invokers written at link time instead, which needs no new Function and is faster
  -sFILESYSTEM=0              # nothing reads files
  -sALLOW_MEMORY_GROWTH       # memory starts small and follows the model
  -sINITIAL_MEMORY=1MB        # the stack and static data, with a little room
  -sMAXIMUM_MEMORY=4GB        # all that 32-bit addresses reach; the default is 2 GB
  -sABORTING_MALLOC=0         # memory that cannot be had is std::bad_alloc and then an error, not an abort
  -sSTACK_SIZE=256KB          # the default 64 KB is little for Eigen's temporaries
  -sMALLOC=none               # heed-malloc, below
  -sINCOMING_MODULE_JS_API=instantiateWasm # drops the glue's support for every other option, printing included
  # A JavaScript exception that leaves through wasm frames does not put the stack pointer back; module.ts does.
  -sEXPORTED_RUNTIME_METHODS=stackSave,stackRestore
  -sTEXTDECODER=2             # TextDecoder exists everywhere: no fallback
  -sPOLYFILL=0                # nor for language features older than SIMD
  -sSUPPORT_LONGJMP=0)        # unused

if(CMAKE_BUILD_TYPE STREQUAL Debug)
  target_link_options(heed-flags INTERFACE -sASSERTIONS=2 -sSAFE_HEAP=1 -sSTACK_OVERFLOW_CHECK=2)
else()
  # Bytes matter outside the kernels and time inside them: -O2 is 3 % faster in int8 than -Os, for 2 KB. What must be unrolled
  # says so (HEED_UNROLL), whatever the level.
  set(CMAKE_CXX_FLAGS_RELEASE "-Oz -DNDEBUG")
  file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS cpp/src/gemm/*.cpp)
  list(APPEND kernel_sources cpp/src/ops/activation.cpp cpp/src/ops/layer_norm.cpp cpp/src/ops/mask.cpp cpp/src/ops/softmax.cpp)
  set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS -O2)
  target_compile_options(heed-flags INTERFACE -flto) # 5 % smaller, and small layers' functions inline across files
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
add_library(heed-malloc OBJECT ${CMAKE_BINARY_DIR}/emmalloc.c)
target_compile_options(heed-malloc PRIVATE -Oz -flto -fno-builtin -w)

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

function(heed_module name)
  add_executable(heed-${name} ${core_sources} ${binding_sources})
  target_link_libraries(heed-${name} PRIVATE heed-flags heed-malloc)
  target_compile_options(heed-${name} PRIVATE ${ARGN})
  target_link_options(heed-${name} PRIVATE ${ARGN})
  set_target_properties(heed-${name} PROPERTIES
    OUTPUT_NAME heed SUFFIX .mjs RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${name})
endfunction()

heed_module(simd128 -msimd128)
heed_module(relaxed-simd -msimd128 -mrelaxed-simd)
