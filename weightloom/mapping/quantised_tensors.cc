#include "weightloom/mapping/quantised_tensors.h"

#include <algorithm>

#include <fmt/format.h>

#include "weightloom/base/quote.h"
#include "weightloom/mapping/companion_names_internal.h"
#include "weightloom/mapping/quantised_search_internal.h"

namespace weightloom {
namespace {

void run_scheme(QuantisedSearch& search) {
  switch (search.config().method) {
    case QuantMethod::compressed_tensors:
      return find_compressed(search);
    case QuantMethod::mxfp4:
      return find_gpt_oss(search);
    case QuantMethod::nvfp4:
      return find_nvfp4(search);
    case QuantMethod::fp8:
      return find_fp4_experts(search);
    case QuantMethod::gptq:
    case QuantMethod::awq:
      return find_word_packed(search);
    case QuantMethod::bitsandbytes:
      return find_bnb(search);
    case QuantMethod::none:
    case QuantMethod::unknown:
      return;
  }
}

/// Tensors of dtypes that are codes in some scheme, but not of one that is known.
void refuse_unknown_codes(QuantisedSearch& search) {
  using enum DType;
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const DType dtype = search.dtype(leaf);
    const bool is_codes = dtype == F8_E4M3FNUZ || dtype == F8_E5M2FNUZ || dtype == F4 ||
                          dtype == F6_E2M3 || dtype == F6_E3M2;
    if (!is_codes || search.is_taken(leaf)) continue;
    search.know(search.name(leaf));
    search.refuse("unknown_scheme", search.name(leaf),
                  fmt::format("{} is {}, which no known scheme has codes of",
                              quote(search.name(leaf)), to_string(dtype)));
  }
}

/// The two forms whose codes are plain bytes are known by their companions where nothing declares
/// them.
void refuse_undeclared_bytes(QuantisedSearch& search) {
  if (search.config().method != QuantMethod::none) return;
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& name = search.name(leaf);
    if (search.dtype(leaf) != DType::U8 || search.is_taken(leaf)) continue;
    const bool is_gpt_oss =
        name.ends_with("_blocks") && search.find(name.substr(0, name.size() - 7) + "_scales");
    const auto scale = search.find(name + "_scale");
    const bool is_nvfp4 = scale && search.dtype(*scale) == DType::F8_E4M3;
    if (!is_gpt_oss && !is_nvfp4) continue;
    search.know(name);
    if (is_nvfp4) search.take(*scale);
    search.refuse("unknown_scheme", name,
                  fmt::format("{} has scales beside it, but config.json has no "
                              "quantization_config that says what its bytes are",
                              quote(name)));
  }
}

/// Leaves out the scales of activations; the names of those left out.
std::vector<std::string> drop_activations(QuantisedSearch& search) {
  std::vector<std::string> dropped;
  const bool is_declared = search.config().method != QuantMethod::none;
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    const std::string& name = search.name(leaf);
    if (search.is_taken(leaf)) continue;
    bool is_dropped = is_declared && is_attention_scale(name) && elements(search.shape(leaf)) == 1;
    for (const CompanionMatch& match : companion_matches(name)) {
      if (match.name.kind != CompanionKind::activation) continue;
      is_dropped |= search.is_known(match.owner) || (is_declared && match.name.is_plain);
    }
    if (!is_dropped) continue;
    search.take(leaf);
    dropped.push_back(name);
  }
  return dropped;
}

void report_dropped(QuantisedSearch& search, const std::vector<std::string>& dropped) {
  if (dropped.empty()) return;
  const size_t others = dropped.size() - 1;
  search.result().findings.push_back(
      {Severity::report, "companion_dropped", dropped.front(), "",
       fmt::format("{}{} left out: scales of activations, which values do not need",
                   quote(dropped.front()),
                   others == 0 ? " is" : fmt::format(" and {} more are", others))});
}

void refuse_left_companion(QuantisedSearch& search, size_t leaf, const CompanionMatch& match) {
  const std::string& name = search.name(leaf);
  if (search.is_known(match.owner)) {
    return search.refuse("unknown_companion", name,
                         fmt::format("{} is named like a companion of {}, but its scheme has none "
                                     "of that name",
                                     quote(name), quote(match.owner)));
  }
  const auto owner = search.find(match.owner);
  search.refuse("scale_alone", name,
                owner
                    ? fmt::format("{} is named like a companion of {}, which is {} and has no "
                                  "codes",
                                  quote(name), quote(match.owner), to_string(search.dtype(*owner)))
                    : fmt::format("{} is named like a companion of {}, which is not there",
                                  quote(name), quote(match.owner)));
}

/// Companions that nothing took.
void refuse_left_companions(QuantisedSearch& search) {
  for (size_t leaf = 0; leaf < search.size(); ++leaf) {
    if (search.is_taken(leaf) || search.is_known(search.name(leaf))) continue;
    for (const CompanionMatch& match : companion_matches(search.name(leaf))) {
      const bool is_scale = search.dtype(leaf) == DType::F8_E8M0;
      if (!match.name.is_plain && !is_scale && !search.is_known(match.owner)) continue;
      refuse_left_companion(search, leaf, match);
      break;
    }
  }
}

}  // namespace

QuantisedTensors find_quantised(const ModelConfig& config, std::span<const NamedLayout> leaves,
                                const ReadLeaf& read) {
  const QuantConfig declared = read_quant_config(config);
  QuantisedSearch search(declared, leaves, read);
  if (!declared.findings.empty()) return std::move(search.result());
  run_scheme(search);
  refuse_undeclared_bytes(search);
  find_fp8(search);
  refuse_unknown_codes(search);
  report_dropped(search, drop_activations(search));
  if (declared.method != QuantMethod::none || search.has_found()) refuse_left_companions(search);
  return std::move(search.result());
}

}  // namespace weightloom
