#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <new>
#include <vector>

#include "allocations/failing_allocations.h"
#include "gemm/gemm.h"
#include "gemm/random_floats.h"
#include "gemm/weights/packed_weight.h"
#include "heed/attention.h"
#include "support.h"
#include "thread_pool_support.h"

namespace heed {
namespace {

using test::Threaded;

TEST(ThreadPool, RunsEachTaskOnce) {
  for (const Index threads : {2, 3, 8}) {
    Threaded threaded(threads);
    EXPECT_EQ(threaded.context.executor.threads(), threads);
    for (Index round = 0; round < 500; ++round) {
      const Index count = round % 97;
      std::vector<int> runs(static_cast<size_t>(count));
      threaded.context.executor.run(count, threaded.context, [&](Index i, Context& own) {
        const Arena::Scope scope(own.arena);
        *own.arena.take<Index>(1) = i;
        ++runs[static_cast<size_t>(i)];
      });
      EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
}

TEST(ThreadPool, SharesTasksAmongAsManyThreadsAsThereAreCores) {
  struct Case {
    Index threads, cores, expected;
  };
  for (const auto& [threads, cores, expected] : {Case{2, 8, 2}, {8, 2, 2}, {4, 3, 3}, {4, 1, 1}, {3, 0, 3}}) {
    Threaded threaded(threads, cores);
    EXPECT_EQ(threaded.context.executor.threads(), expected) << threads << " threads, " << cores << " cores";
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> runs = 0;
      threaded.context.executor.run(50, threaded.context, [&](Index, Context&) { ++runs; });
      EXPECT_EQ(runs, 50);
    }
  }
}

TEST(ThreadPool, RunsOnSeveralThreadsWithContextsOfTheirOwn) {
  Threaded threaded(2);
  threaded.context.random = {.first_sequence = 3, .first_row = 7};
  // Both tasks wait for each other, so each must have a thread.
  std::atomic<int> arrived = 0;
  std::array<Context*, 2> contexts{};
  threaded.context.executor.run(2, threaded.context, [&](Index i, Context& own) {
    contexts[static_cast<size_t>(i)] = &own;
    EXPECT_EQ(own.random.first_sequence, 3);
    EXPECT_EQ(own.random.first_row, 7);
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_NE(contexts[0], contexts[1]);
  EXPECT_TRUE(contexts[0] == &threaded.context || contexts[1] == &threaded.context);
}

TEST(ThreadPool, RethrowsTheErrorOfATask) {
  Threaded threaded(3);
  Context& context = threaded.context;
  for (Index wrong = 0; wrong < 20; ++wrong) {
    const auto fails = [&](Index i, Context&) {
      if (i == wrong) throw Error(ErrorCode::kUnsupported, "task " + std::to_string(i));
    };
    test::expectError(ErrorCode::kUnsupported, "task " + std::to_string(wrong),
                      [&] { context.executor.run(20, threaded.context, fails); });
  }
  const auto allocates = [&](Index, Context&) { throw std::bad_alloc(); };
  test::expectError(ErrorCode::kOutOfMemory, "out of memory",
                    [&] { context.executor.run(4, threaded.context, allocates); });
  std::atomic<int> runs = 0;
  context.executor.run(9, threaded.context, [&](Index, Context&) { ++runs; });
  EXPECT_EQ(runs, 9);
}

// The tasks that fail run on the caller or on a thread.
TEST(ThreadPool, EndsTheRegionIfATaskAsksForTooMuchMemory) {
  static int regions;
  regions = 0;
  ThreadPool pool(1, 2, true, [] { ++regions; });
  Context context;
  context.executor = Executor(&pool);
  pool.add(0);
  std::thread thread([&] { pool.work(0); });
  for (int round = 1; round <= 20; ++round) {
    std::atomic<int> arrived = 0;
    const auto allocates = [&](Index, Context&) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      std::vector<float>().reserve(std::numeric_limits<size_t>::max());
    };
    test::expectError(ErrorCode::kOutOfMemory, "out of memory", [&] { context.executor.run(2, context, allocates); });
    EXPECT_EQ(regions, round);
  }
  pool.stop();
  thread.join();
}

TEST(ThreadPool, RunsTasksOfTasksOnTheSameThread) {
  Threaded threaded(2);
  std::atomic<int> runs = 0;
  threaded.context.executor.run(4, threaded.context, [&](Index, Context& own) {
    const auto thread = std::this_thread::get_id();
    own.executor.run(5, own, [&](Index, Context& inner) {
      EXPECT_EQ(&inner, &own);
      EXPECT_EQ(std::this_thread::get_id(), thread);
      ++runs;
    });
  });
  EXPECT_EQ(runs, 20);
}

TEST(ThreadPool, FreesTheMemoryOfThreadsThatWereReplaced) {
  constexpr size_t kStack = 1 << 20;
  ThreadPool pool(2, 3, true);
  const auto replace = [&](Index i, bool fails) {
    std::byte* stack = pool.add(i, kStack);
    stack[0] = stack[kStack - 1] = std::byte{1};
    std::thread thread([&] {
      pool.work(i);
      if (fails) pool.fail();
    });
    pool.stop();
    thread.join();
  };
  replace(0, false);
  replace(1, false);
  const int64_t before = test::allocatedBytes();
  for (int round = 0; round < 20; ++round) replace(round % 2, round % 3 == 0);
  EXPECT_LT(test::allocatedBytes() - before, int64_t{kStack});
}

TEST(ThreadPool, FailsIfAThreadEndedInATaskAndGoesOnWithAnother) {
  ThreadPool pool(1, 2, true);
  Context context;
  context.executor = Executor(&pool);
  const auto meet = [&](bool ends) {
    std::atomic<int> arrived = 0;
    const auto caller = std::this_thread::get_id();
    struct Ended {};
    pool.add(0);
    std::thread thread([&] {
      try {
        pool.work(0);
      } catch (const Ended&) {
        pool.fail();
      }
    });
    const auto run = [&] {
      context.executor.run(2, context, [&](Index, Context&) {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
        if (ends && std::this_thread::get_id() != caller) throw Ended();
      });
    };
    if (ends) {
      test::expectError(ErrorCode::kWorkerFailed, "threads: a thread ended", run);
    } else {
      run();
    }
    pool.stop();
    thread.join();
  };
  meet(true);
  meet(false);
}

TEST(ThreadPool, ProductsHaveTheSameBitsForAnyNumberOfThreads) {
  struct Case {
    Index rows, depth, out;
  };
  for (const auto& [rows, depth, out] :
       {Case{1, 640, 1040}, Case{16, 384, 392}, Case{40, 200, 161}, Case{100, 96, 200}, Case{129, 64, 333}}) {
    for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
      const std::vector<float> a = randomFloats(rows * depth, 1), w = randomFloats(out * depth, 2),
                               bias = randomFloats(out, 3);
      const auto weight = PackedWeight::create(out, depth, precision), other = PackedWeight::create(out + 9, depth, {});
      weight->write(0, out, w.data());
      const auto multiply = [&](Context& context) {
        std::vector<float> c(static_cast<size_t>(rows * out), 0.5f), d(static_cast<size_t>(rows * (out + 9)));
        const Epilogue epilogue{
            .bias = bias.data(), .activation = Activation::kGelu, .residual = c.data(), .residual_stride = out};
        const Product products[] = {{weight.get(), epilogue, view(c.data(), rows, out)},
                                    {other.get(), {}, view(d.data(), rows, out + 9)}};
        matmul(view(a.data(), rows, depth), products, context);
        c.insert(c.end(), d.begin(), d.end());
        return c;
      };
      Context alone;
      const std::vector<float> expected = multiply(alone);
      for (const Index threads : {2, 3, 4, 8}) {
        Threaded threaded(threads);
        EXPECT_EQ(multiply(threaded.context), expected) << rows << " rows, " << threads << " threads";
      }
    }
  }
}

TEST(ThreadPool, AttentionHasTheSameBitsForAnyNumberOfThreads) {
  for (const Index heads : {1, 3}) {
    const Sequences sequences = Sequences::ofLengths({5, 0, 61, 1, 18});
    const Index rows = sequences.totalRows(), width = heads * 10;
    const std::vector<float> q = randomFloats(rows * width, 1), k = randomFloats(rows * width, 2),
                             v = randomFloats(rows * width, 3);
    const auto attend = [&](Context& context) {
      std::vector<float> out(static_cast<size_t>(rows * width)),
          weights(static_cast<size_t>(attentionWeightsSize(heads, sequences, sequences)));
      const auto matrix = [&](const std::vector<float>& values) {
        return Value::constant(view(values.data(), rows, width));
      };
      attention({matrix(q), matrix(k), matrix(v), sequences, sequences}, heads,
                {.causal = true, .dropout = 0.2f, .dropout_key = {.seed = 11}},
                {view(out.data(), rows, width), weights.data()}, context);
      out.insert(out.end(), weights.begin(), weights.end());
      return out;
    };
    Context alone;
    alone.random.first_sequence = 4;
    const std::vector<float> expected = attend(alone);
    for (const Index threads : {2, 3, 4, 8}) {
      Threaded threaded(threads);
      threaded.context.random.first_sequence = 4;
      EXPECT_EQ(attend(threaded.context), expected) << heads << " heads, " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace heed
