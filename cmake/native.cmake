# Native builds of the core and its tests. SIMDe provides the WebAssembly intrinsics (see gemm/simd.h). The code with SIMD
# is compiled once per variant, with and without relaxed SIMD; all other code is compiled once.

find_package(GTest REQUIRED)
enable_testing()

if(HEED_SANITIZE)
  # Leak checking is part of the address sanitizer on Linux.
  target_compile_options(heed-flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(heed-flags INTERFACE -fsanitize=address,undefined)
endif()
if(HEED_INDEX32)
  target_compile_definitions(heed-flags INTERFACE EIGEN_DEFAULT_DENSE_INDEX_TYPE=int)
endif()
if(HEED_FUZZ)
  target_compile_options(heed-flags INTERFACE -fsanitize=fuzzer-no-link) # reports branch coverage to libFuzzer
endif()
if(HEED_COVERAGE)
  target_compile_options(heed-flags INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(heed-flags INTERFACE -fprofile-instr-generate -fcoverage-mapping)
endif()

# The pool, as in the modules with threads, for its tests.
list(APPEND core_sources ${train_sources} cpp/src/core/thread_pool.cpp)
list(APPEND kernel_sources ${train_kernel_sources})

add_library(heed-core OBJECT ${core_sources})
target_link_libraries(heed-core PUBLIC heed-flags)
target_precompile_headers(heed-core PRIVATE ${core_headers})
if(test_sources)
  add_library(heed-test-cases OBJECT ${test_sources} ${reference_sources})
  target_include_directories(heed-test-cases PRIVATE tests/cpp)
  target_compile_definitions(heed-test-cases PRIVATE HEED_FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures" HEED_KERNEL)
  target_link_libraries(heed-test-cases PUBLIC heed-flags GTest::gtest)
  target_precompile_headers(heed-test-cases PRIVATE ${core_headers} <gtest/gtest.h> <Eigen/Geometry> <functional> <map>)
  if(HEED_SANITIZE)
    # What is checked is the core. For the tests' own code, checks of undefined behaviour and line tables take half of the time.
    target_compile_options(heed-test-cases PRIVATE -fno-sanitize=undefined -g0)
  endif()
endif()

function(heed_kernels name)
  add_library(heed-kernels-${name} OBJECT ${kernel_sources})
  target_link_libraries(heed-kernels-${name} PUBLIC heed-flags)
  target_compile_definitions(heed-kernels-${name} PRIVATE HEED_KERNEL ${ARGN})
  target_precompile_headers(heed-kernels-${name} PRIVATE ${core_headers})
  if(test_sources)
    add_executable(heed-tests-${name})
    target_link_libraries(heed-tests-${name} PRIVATE heed-core heed-kernels-${name} heed-test-cases GTest::gtest_main)
    # One process for all tests, because starting a process takes longer than most tests.
    add_test(NAME ${name} COMMAND heed-tests-${name} --gtest_brief=1)
  endif()
endfunction()

if("relaxed-simd" IN_LIST HEED_VARIANTS)
  heed_kernels(relaxed-simd HEED_RELAXED_SIMD)
endif()
if("simd128" IN_LIST HEED_VARIANTS)
  heed_kernels(simd128)
endif()

if(HEED_FUZZ)
  add_executable(heed-fuzz tests/cpp/fuzz/core_fuzz.cpp tests/cpp/fuzz/model_fuzz.cpp)
  target_include_directories(heed-fuzz PRIVATE tests/cpp)
  target_link_libraries(heed-fuzz PRIVATE heed-core heed-kernels-relaxed-simd -fsanitize=fuzzer)
endif()
