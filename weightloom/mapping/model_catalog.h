// The model catalogue: what is known of every class of Transformers without running it. Which
// sub-models it has and where their configs stand, the names of its own tensors, its tied weights,
// what it keeps in F32 and what it may lack.
//
// Shipped as mappings/models.json, one class a line, written by tools/export_transformers.py:
//   {"format": "weightloom.models/1", "transformers": "5.23.0",
//    "auto": {"AutoModel": {"llama": "LlamaModel", …}, …},
//    "classes": {"LlavaModel": {"model_type": "llava", "base_model_prefix": "model",
//      "submodels": [{"path": "vision_tower", "auto": "AutoModel", "config": "vision_config",
//                     "model_type": "clip_vision_model"}, …],
//      "tied": {"lm_head.weight": "model.embed_tokens.weight"}, "tie_word_embeddings": true,
//      "keep_in_fp32": […], "keep_in_fp32_strict": […], "ignore_on_load_missing": […],
//      "ignore_on_load_unexpected": […], "ignore_on_save": […], "names": […], "buffers": […],
//      "tree": false}, …}}
//
// Thread safety: an immutable value; classes are read when they are first asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weightloom/base/export.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// A sub-model of a class: of one class, or of the class that an auto class gives for the
/// model_type of its config.
struct Submodel {
  std::string path;        ///< from the class; "*" stands for a number in a list
  std::string class_name;  ///< "" where `auto_class` chooses
  std::string auto_class;  ///< "AutoModel" and its like
  std::string config;      ///< path of its config below the class's; "": the same config
  std::string model_type;  ///< where the config does not say
};

/// What is known of a class.
struct ModelClass {
  std::string name;                 ///< "LlavaModel"
  std::string model_type;           ///< of its config class
  std::string base_model_prefix;    ///< "model"; "" if it has none
  std::vector<Submodel> submodels;  ///< the nearest ones, in the order of its modules
  /// Patterns of names that are one tensor: (tied, with what).
  std::vector<std::pair<std::string, std::string>> tied;
  bool tie_word_embeddings = false;                    ///< where the config does not say
  std::vector<std::string> keep_in_fp32;               ///< patterns; when cast to F16
  std::vector<std::string> keep_in_fp32_strict;        ///< patterns; when cast to F16 or BF16
  std::vector<std::string> ignore_on_load_missing;     ///< patterns
  std::vector<std::string> ignore_on_load_unexpected;  ///< patterns
  std::vector<std::string> ignore_on_save;             ///< patterns
  std::vector<std::string> names;    ///< templates of its tensors outside of its sub-models
  std::vector<std::string> buffers;  ///< of these, those that are no parameters
  bool tree_known = true;            ///< submodels and names are
};

/// Classes by name; see the top of this file.
class ModelCatalog {
 public:
  /// Empty: no class is known.
  ModelCatalog() = default;
  /// The shipped one.
  static ModelCatalog built_in();
  /// Errors: format, naming `file` and the place, here or when a class is asked for.
  static ModelCatalog parse(std::string json, std::string file);

  /// Null if the class is unknown.
  std::shared_ptr<const ModelClass> find(std::string_view class_name) const;
  /// The class that an auto class gives for a model_type.
  std::optional<std::string> class_for(std::string_view auto_class,
                                       std::string_view model_type) const;

  /// Names of the classes, sorted.
  std::vector<std::string> class_names() const;
  /// The model types that AutoModel has a class for, sorted.
  std::vector<std::string> model_types() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weightloom
