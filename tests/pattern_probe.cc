// Says what patterns match, for python/tests/test_pattern_differential.py.
//
// stdin: {"transforms": [mapping file text, …], "names": [text, …]}, each mapping with one
// transform. stdout: one line per mapping, a JSON list of [name number, source number, begin, end,
// new name, [group text, …]] for the names that match, or {"error": text}. Offsets count bytes.
#include <iostream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "weightloom/mapping/mapping.h"
#include "weightloom/mapping/transform_matcher_internal.h"

namespace {

using nlohmann::json;
using weightloom::Mapping;
using weightloom::Pattern;
using weightloom::TransformMatcher;

json hits_of(const std::string& mapping_text, const json& names) {
  const Mapping mapping = Mapping::parse(mapping_text, "probe.json");
  TransformMatcher matcher(mapping.transforms().at(0), Pattern::Use::search);
  const auto form = weightloom::form_of(mapping.transforms().at(0));
  json hits = json::array();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& name = names[i].get_ref<const std::string&>();
    const auto match = matcher.match(name);
    if (!match) continue;
    const std::vector<std::string> groups = [&] {
      const auto views = matcher.groups(*match, name);
      return std::vector<std::string>(views.begin(), views.end());
    }();
    const auto renamed = form.converts ? matcher.render(*match, name, 0).shown()
                                       : matcher.rename(name).value_or(name);
    hits.push_back({i, match->source, match->scope_bytes + match->at.begin(),
                    match->scope_bytes + match->at.end(), renamed, groups});
  }
  return hits;
}

}  // namespace

int main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const json request = json::parse(text);
  for (const json& mapping : request["transforms"]) {
    try {
      std::cout << hits_of(mapping.get<std::string>(), request["names"]).dump() << '\n';
    } catch (const std::exception& error) {
      std::cout << json{{"error", error.what()}}.dump() << '\n';
    }
  }
}
