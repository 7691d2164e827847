#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "weightloom/layout/operations.h"
#include "weightloom/layout/relation.h"
#include "weightloom/plan/cast_rules_internal.h"
#include "weightloom/plan/way_back_internal.h"
#include "weightloom/safetensors/header.h"

namespace weightloom {
namespace {

/// The relation of a record: hub tensors, and the runtime layouts that its mapping makes of them.
struct RecordedForward {
  std::vector<NamedLayout> hub;  // identities
  std::vector<NamedLayout> runtime;
};

class RecordReader {
 public:
  RecordReader(const Provenance& record, std::span<const NamedLayout> tensors,
               std::span<const std::optional<std::string>> names, int threads)
      : record_(record), tensors_(tensors), names_(names), threads_(threads) {}

  WayBack read() && {
    RecordedForward forward = recorded_forward();
    Relation relation = relation_over_source(forward);
    const bool sound = std::ranges::none_of(result_.findings, [](const Finding& finding) {
      return finding.severity == Severity::error;
    });
    if (!sound) return std::move(result_);
    Relation back = invert(relation);
    for (size_t i = 0; i < forward.hub.size(); ++i) {
      const DType dtype = dtype_today(back.targets[i]).value_or(forward.hub[i].dtype);
      result_.targets.push_back(
          {std::move(forward.hub[i].name), dtype, std::move(back.targets[i])});
    }
    return std::move(result_);
  }

 private:
  /// The dtype of the first source of a layout over the tensors that are there; nothing if it has
  /// none.
  std::optional<DType> dtype_today(const Layout& layout) const {
    for (const Region& region : layout.regions()) {
      if (region.is_pad()) continue;
      return tensors_[static_cast<size_t>(region.source)].dtype;
    }
    return std::nullopt;
  }

  RecordedForward recorded_forward() {
    RecordedForward forward;
    for (const OriginalFile& file : record_.files) {
      const Header header = Header::parse_alone(file.header_json, file.name);
      for (const HeaderTensor& tensor : header.tensors()) {
        const auto id = static_cast<SourceId>(forward.hub.size());
        forward.hub.push_back({tensor.name, tensor.dtype, identity(id, tensor.shape)});
        result_.original_dtypes.push_back(tensor.dtype);
      }
    }
    MappingResult applied = apply_mapping(record_.mapping, forward.hub, recorded_config(),
                                          {threads_, !record_.casts.empty(), names_of_model()});
    result_.findings = std::move(applied.findings);
    result_.passed_through = applied.passed_through;
    forward.runtime = std::move(applied.tensors);
    return forward;
  }

  RuntimeNames names_of_model() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < names_.size(); ++i) {
      names.push_back(names_[i].value_or(tensors_[i].name));
    }
    return recorded_names(record_, std::move(names));
  }

  ModelConfig recorded_config() const {
    if (record_.config_json.empty()) return ModelConfig();
    return ModelConfig::parse(record_.config_json, kProvenanceName);
  }

  /// The forward layouts in the order of the tensors that are there; every disagreement is found.
  Relation relation_over_source(const RecordedForward& forward) {
    Casting casting(record_.casts, record_.mapping, forward.runtime);
    std::map<std::string, const NamedLayout*> recorded;
    for (const NamedLayout& tensor : forward.runtime) recorded.emplace(tensor.name, &tensor);
    Relation relation;
    for (const NamedLayout& hub : forward.hub) relation.sources.push_back(hub.layout.shape());
    relation.drops.resize(relation.sources.size());
    for (size_t i = 0; i < names_.size(); ++i) {
      const NamedLayout& tensor = tensors_[i];
      const std::string& name = names_[i].value_or(tensor.name);
      const auto found = recorded.find(name);
      if (found == recorded.end()) {
        add_error("not_in_record", name,
                  fmt::format("tensor '{}' is not among those that {} says were made", name,
                              kProvenanceName));
        continue;
      }
      check_against_record(tensor, *found->second, casting);
      relation.targets.push_back(found->second->layout);
      recorded.erase(found);
    }
    for (const auto& [name, tensor] : recorded) {
      add_error("missing_source", name,
                fmt::format("tensor '{}' {} is gone; {} says it was made", name,
                            to_string(tensor->layout.shape()), kProvenanceName));
    }
    return relation;
  }

  void check_against_record(const NamedLayout& tensor, const NamedLayout& recorded,
                            Casting& casting) {
    const DType dtype = casting.dtype_of(recorded);
    if (tensor.layout.shape() == recorded.layout.shape() && tensor.dtype == dtype) return;
    add_error("shape_mismatch", tensor.name,
              fmt::format("tensor '{}' is {} {}, but {} says {} {}", tensor.name,
                          to_string(tensor.dtype), to_string(tensor.layout.shape()),
                          kProvenanceName, to_string(dtype), to_string(recorded.layout.shape())));
  }

  void add_error(std::string code, const std::string& tensor, std::string message) {
    result_.findings.push_back({Severity::error, std::move(code), tensor, "", std::move(message)});
  }

  const Provenance& record_;
  std::span<const NamedLayout> tensors_;
  std::span<const std::optional<std::string>> names_;
  const int threads_;
  WayBack result_;
};

}  // namespace

RuntimeNames recorded_names(const Provenance& record, std::vector<std::string> names) {
  if (!record.model_names) return {};
  const std::set<std::string_view> unknown(record.model_names->unknown.begin(),
                                           record.model_names->unknown.end());
  std::erase_if(names, [&](const std::string& name) { return unknown.contains(name); });
  return RuntimeNames::exactly(std::move(names), record.model_names->base_model_prefix);
}

WayBack way_back(const Provenance& record, std::span<const NamedLayout> tensors,
                 std::span<const std::optional<std::string>> names, int threads) {
  return RecordReader(record, tensors, names, threads).read();
}

}  // namespace weightloom
