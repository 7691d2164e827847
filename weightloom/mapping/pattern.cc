#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "weightloom/base/error.h"
#include "weightloom/mapping/pattern_internal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace weightloom {
namespace {

constexpr size_t kMaxPatternBytes = 10'000;
constexpr uint32_t kMatchLimit = 200'000;  // steps; honest patterns on names need hundreds
constexpr uint32_t kHeapLimitKibibytes = 8192;

template <auto function>
struct Free {
  template <typename T>
  void operator()(T* object) const noexcept {
    function(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;

PCRE2_SPTR code_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string engine_message(int code) {
  char text[256];
  const int length = pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), 256);
  return length < 0 ? fmt::format("error {}", code) : std::string(text);
}

constexpr uint32_t kAsciiOptions = PCRE2_NEVER_BACKSLASH_C;
// A name that is not UTF-8 matches nothing across the broken place, instead of failing.
constexpr uint32_t kTextOptions = kAsciiOptions | PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF;

struct Compilation {
  Code code;  // null if it failed
  int error = 0;
  size_t place = 0;
};

Compilation try_compile(const std::string& regex, uint32_t options) {
  CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_max_pattern_length(context.get(), kMaxPatternBytes);
  Compilation result;
  result.code.reset(pcre2_compile(code_units(regex), regex.size(), options, &result.error,
                                  &result.place, context.get()));
  return result;
}

Code compile(const std::string& regex, std::string_view shown) {
  Compilation result = try_compile(regex, kTextOptions);
  if (!result.code) {
    throw Error(ErrorCode::mapping,
                fmt::format("pattern '{}' does not compile: {} (at byte {} of '{}')", shown,
                            engine_message(result.error), result.place, regex));
  }
  return std::move(result.code);
}

bool is_ascii(std::string_view text) noexcept {
  unsigned char all = 0;  // without an early end, so that the loop takes many bytes at a time
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

/// The pattern without Unicode: it matches ASCII names alike, in half the time. Null if there is
/// none.
Code compile_for_ascii(const std::string& regex) {
  return is_ascii(regex) ? try_compile(regex, kAsciiOptions).code : nullptr;
}

/// Without it, search is only slower.
void make_fast(pcre2_code* code) {
  if (code != nullptr) pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

int capture_count(const pcre2_code* code) {
  uint32_t count = 0;
  pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &count);
  return static_cast<int>(count);
}

/// The place of the character that names have least often.
size_t rarest(std::string_view literal) noexcept {
  constexpr std::string_view kOftenFirst = ".e_atlsrwoinpmdyjghkbcvfquxz";
  const auto rarity = [&](char c) { return std::min(kOftenFirst.find(c), kOftenFirst.size()); };
  size_t best = 0;
  for (size_t i = 1; i < literal.size(); ++i) {
    if (rarity(literal[i]) > rarity(literal[best])) best = i;
  }
  return best;
}

/// True if `literal`, whose character at `rare` is rare, occurs in `name`.
bool occurs(std::string_view literal, size_t rare, std::string_view name) noexcept {
  if (literal.empty()) return true;
  for (size_t at = rare; at < name.size(); ++at) {
    at = name.find(literal[rare], at);
    if (at == name.npos) return false;
    if (name.substr(at - rare, literal.size()) == literal) return true;
  }
  return false;
}

std::string longest(const std::vector<std::string>& literals) {
  const auto found = std::ranges::max_element(literals, {}, &std::string::size);
  return found == literals.end() ? std::string() : *found;
}

}  // namespace

std::string_view PatternMatch::group(int number, std::string_view name) const noexcept {
  const auto at = 2 * static_cast<size_t>(number);
  if (at + 1 >= offsets_.size() || offsets_[at] == PCRE2_UNSET) return {};
  return name.substr(offsets_[at], offsets_[at + 1] - offsets_[at]);
}

struct Pattern::Engine {
  Code code;
  Code ascii_code;  // may be null
  MatchContext context;
  MatchData data;
};

void Pattern::Close::operator()(Engine* engine) const noexcept { delete engine; }

Pattern::Pattern(const SourceSyntax& syntax, std::string shown, Use use)
    : shown_(std::move(shown)),
      literals_(syntax.literals),
      longest_literal_(longest(literals_)),
      rare_(rarest(longest_literal_)),
      engine_(new Engine) {
  engine_->code = compile(syntax.regex, shown_);
  if (syntax.captures >= 0 && capture_count(engine_->code.get()) != syntax.captures) {
    throw Error(ErrorCode::mapping,
                fmt::format("pattern '{}' has groups that cannot be told apart: write it without "
                            "\\Q…\\E, comments and conditionals",
                            shown_));
  }
  if (use == Use::check) return;
  engine_->ascii_code = compile_for_ascii(syntax.regex);
  make_fast(engine_->code.get());
  make_fast(engine_->ascii_code.get());
  engine_->context.reset(pcre2_match_context_create(nullptr));
  engine_->data.reset(pcre2_match_data_create_from_pattern(engine_->code.get(), nullptr));
  if (!engine_->context || !engine_->data) throw std::bad_alloc();
  pcre2_set_match_limit(engine_->context.get(), kMatchLimit);
  pcre2_set_depth_limit(engine_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(engine_->context.get(), kHeapLimitKibibytes);
}

/// True if the literals occur in `name` in order, apart. The longest is looked for first, since few
/// names hold it.
bool Pattern::holds_literals(std::string_view name) const noexcept {
  if (!occurs(longest_literal_, rare_, name)) return false;
  if (literals_.size() < 2) return true;
  size_t at = 0;
  for (const auto& literal : literals_) {
    at = name.find(literal, at);
    if (at == name.npos) return false;
    at += literal.size();
  }
  return true;
}

std::optional<PatternMatch> Pattern::search(std::string_view name, size_t from) {
  if (!holds_literals(name)) return std::nullopt;
  const bool plain = engine_->ascii_code && is_ascii(name);
  const pcre2_code* code = plain ? engine_->ascii_code.get() : engine_->code.get();
  const int result = pcre2_match(code, code_units(name), name.size(), from, 0, engine_->data.get(),
                                 engine_->context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw Error(ErrorCode::mapping,
                fmt::format("pattern '{}' is too costly to search in '{}': {}", shown_, name,
                            engine_message(result)),
                "write the pattern without nested repetition");
  }
  const size_t* offsets = pcre2_get_ovector_pointer(engine_->data.get());
  return PatternMatch({offsets, 2 * static_cast<size_t>(result)});
}

}  // namespace weightloom
