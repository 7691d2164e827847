#include <algorithm>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/mapping/companion_names_internal.h"
#include "weightloom/mapping/quantised_groups_internal.h"

namespace weightloom {
namespace {

constexpr std::string_view kRegex = "re:";

std::string_view shown(CodeForm form) {
  switch (form) {
    case CodeForm::packed:
      return "integers packed in I32";
    case CodeForm::pairs:
      return "pairs of 4-bit floats in U8";
    case CodeForm::fp8:
      return "FP8";
    case CodeForm::int8:
      return "I8";
  }
  return "";
}

/// The formats in which a form is stored; none said is any.
bool is_format_of(std::string_view format, CodeForm form) {
  if (format.empty()) return true;
  const bool is_naive = format == "naive-quantized";
  switch (form) {
    case CodeForm::packed:
      return format == "pack-quantized";
    case CodeForm::pairs:
      return format == "nvfp4-pack-quantized" || format == "mxfp4-pack-quantized";
    case CodeForm::fp8:
      return is_naive || format == "float-quantized" || format == "mxfp8-quantized";
    case CodeForm::int8:
      return is_naive || format == "int-quantized";
  }
  return false;
}

bool makes(const WeightArgs& args, CodeForm form) {
  if (!is_format_of(args.format, form)) return false;
  switch (form) {
    case CodeForm::packed:
    case CodeForm::int8:
      return !args.is_float;
    case CodeForm::pairs:
      return args.is_float && args.bits == 4;
    case CodeForm::fp8:
      return args.is_float && args.bits == 8;
  }
  return false;
}

bool say_the_same(const std::vector<const QuantGroup*>& groups) {
  return std::ranges::all_of(
      groups, [&](const QuantGroup* group) { return group->weights == groups.front()->weights; });
}

}  // namespace

GroupChoice::GroupChoice(QuantisedSearch& search) {
  for (const QuantGroup& group : search.config().groups) {
    for (const std::string& target : group.targets) add_target(search, group, target);
  }
}

void GroupChoice::add_target(QuantisedSearch& search, const QuantGroup& group,
                             const std::string& target) {
  Target made{&group, target};
  made.is_class = target.find('.') == target.npos;
  if (!target.starts_with(kRegex)) return targets_.push_back(std::move(made));
  made.is_class = false;
  const std::vector<std::string> pattern = {fmt::format("^(?:{})", target.substr(kRegex.size()))};
  try {
    made.pattern.emplace_back(pattern);
    targets_.push_back(std::move(made));
  } catch (const Error& error) {
    search.refuse("unknown_scheme", "",
                  fmt::format("config.json: a target of the group {} is no pattern: {}",
                              quote(group.name), error.what()));
  }
}

std::vector<const QuantGroup*> GroupChoice::groups_of(std::string_view module) {
  std::vector<const QuantGroup*> named;
  std::vector<const QuantGroup*> matched;
  std::vector<const QuantGroup*> classes;
  for (Target& target : targets_) {
    if (target.is_class) classes.push_back(target.group);
    const bool is_name = target.pattern.empty() && target.name == module;
    if (is_name) named.push_back(target.group);
    if (!target.pattern.empty() && target.pattern.front().match(module)) {
      matched.push_back(target.group);
    }
  }
  if (!named.empty()) return named;
  return matched.empty() ? classes : matched;
}

const WeightArgs* GroupChoice::choose(QuantisedSearch& search, const std::string& name,
                                      CodeForm form) {
  auto groups = groups_of(module_of(name));
  std::erase_if(groups, [&](const QuantGroup* group) { return !makes(group->weights, form); });
  if (!groups.empty() && say_the_same(groups)) return &groups.front()->weights;
  const std::string why = groups.empty()
                              ? fmt::format("but no group of config_groups makes such codes of {}",
                                            quote(module_of(name)))
                              : fmt::format("but the groups {} and {} say different things of {}",
                                            quote(groups.front()->name), quote(groups.back()->name),
                                            quote(module_of(name)));
  search.refuse("unknown_scheme", name,
                fmt::format("{} is stored as {}, {}", quote(name), shown(form), why));
  return nullptr;
}

}  // namespace weightloom
