// Arithmetic as IEEE 754 has it, whatever the process told the processor about subnormals.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace weightloom {

/// While it lives, this thread rounds to nearest even and keeps subnormals.
class ExactFloats {
 public:
  ExactFloats() noexcept : before_(state()) { set_state(kExact); }
  ~ExactFloats() { set_state(before_); }
  ExactFloats(const ExactFloats&) = delete;
  ExactFloats& operator=(const ExactFloats&) = delete;

 private:
#if defined(__SSE__)
  using State = uint32_t;
  static constexpr State kExact = 0x1f80;  // all exceptions masked, nothing flushed
  static State state() noexcept { return _mm_getcsr(); }
  static void set_state(State state) noexcept { _mm_setcsr(state); }
#elif defined(__aarch64__)
  using State = uint64_t;
  static constexpr State kExact = 0;
  static State state() noexcept {
    State state = 0;
    asm volatile("mrs %0, fpcr" : "=r"(state)::"memory");
    return state;
  }
  static void set_state(State state) noexcept {
    asm volatile("msr fpcr, %0" ::"r"(state) : "memory");
  }
#else
  using State = int;
  static constexpr State kExact = 0;
  static State state() noexcept { return 0; }
  static void set_state(State) noexcept {}
#endif
  State before_;
};

}  // namespace weightloom
