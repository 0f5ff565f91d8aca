// A small thread pool for running templates by themselves (tests, benchmarks): workers spin for a
// moment after each job, then sleep. Compiled programs bring their own pool.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime.h"

namespace standalone {

struct Pool {
    std::vector<std::thread> workers;
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<int64_t> job{0}, next{0}, running{0};
    int64_t n = 0, grain = 1;
    void (*body)(void*, int64_t, int64_t) = nullptr;
    void* ctx = nullptr;
    bool stop = false;

    explicit Pool(int threads) {
        for (int i = 1; i < threads; i++) workers.emplace_back([this] { work(); });
    }
    ~Pool() {
        {
            std::lock_guard<std::mutex> lock(mutex);
            stop = true;
            job++;
        }
        wake.notify_all();
        for (auto& w : workers) w.join();
    }
    void drain() {
        for (int64_t i; (i = next.fetch_add(grain)) < n;) body(ctx, i, i + grain < n ? i + grain : n);
    }
    void work() {
        for (int64_t seen = 0;;) {
            for (int spin = 0; spin < 20000 && job.load() == seen; spin++) std::atomic_signal_fence(std::memory_order_seq_cst);
            if (job.load() == seen) {
                std::unique_lock<std::mutex> lock(mutex);
                wake.wait(lock, [&] { return job.load() != seen; });
            }
            seen = job.load();
            if (stop) return;
            drain();
            running--;
        }
    }
    void run(int64_t count, int64_t chunk, void (*f)(void*, int64_t, int64_t), void* arg) {
        n = count, grain = chunk < 1 ? 1 : chunk, body = f, ctx = arg;
        next = 0;
        running = int64_t(workers.size());
        {
            std::lock_guard<std::mutex> lock(mutex);
            job++;
        }
        wake.notify_all();
        drain();
        while (running.load() > 0) std::this_thread::yield();
    }
};

inline void parallel_for(void* pool, int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* ctx) {
    static_cast<Pool*>(pool)->run(n, grain, body, ctx);
}

}  // namespace standalone

extern "C" dynacomp_runtime* standalone_runtime(int threads) {
    return new dynacomp_runtime{standalone::parallel_for, new standalone::Pool(threads), threads};
}
