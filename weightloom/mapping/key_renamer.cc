#include "weightloom/mapping/key_renamer.h"

#include "weightloom/mapping/transform_matcher_internal.h"

namespace weightloom {

struct KeyRenamer::Matcher {
  TransformMatcher of;
  bool converts = false;
};

KeyRenamer::KeyRenamer(const WeightTransform& transform)
    : matcher_(std::make_unique<Matcher>(Matcher{TransformMatcher(transform, Pattern::Use::search),
                                                 form_of(transform).converts})) {}
KeyRenamer::KeyRenamer(KeyRenamer&&) noexcept = default;
KeyRenamer& KeyRenamer::operator=(KeyRenamer&&) noexcept = default;
KeyRenamer::~KeyRenamer() = default;

RenamedKey KeyRenamer::rename(std::string_view key) {
  const auto match = matcher_->of.match(key);
  if (!match) return {std::string(key), std::nullopt};
  const int source = match->source;
  if (matcher_->converts) return {matcher_->of.render(*match, key, 0).shown(), source};
  return {matcher_->of.rename(key).value_or(std::string(key)), source};
}

}  // namespace weightloom
