// Einsum (https://onnx.ai/onnx/operators/onnx__Einsum.html) as products of matrices, one operand after the
// other: Transpose, Reshape, MatMul, Mul and ReduceSum of the operator set.

#include <algorithm>
#include <map>
#include <set>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/import/operators/families.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;
// The axes of an operand by name: letters of the equation, and for the axes of an ellipsis numbers, counted
// from the last.
using Labels = std::vector<int>;
constexpr int kLetters = 256;

bool contains(const Labels& labels, int label) {
  return std::ranges::count(labels, label) > 0;
}

// A term of the equation: its letters, and where among them the ellipsis is, if it has one.
struct Term {
  Labels letters;
  std::optional<std::size_t> ellipsis;

  // With `axes` axes in the place of the ellipsis.
  Labels labels(int axes) const {
    Labels all = letters;
    for (int axis = 0; ellipsis && axis < axes; ++axis)
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(*ellipsis), kLetters + axis);
    return all;
  }
};

struct Equation {
  std::vector<Term> inputs;
  std::optional<Term> output;
};

Term parse_term(const std::string& text) {
  Term term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    if (is_letter) {
      term.letters.push_back(letter);
    } else if (text.substr(i, 3) == "..." && !term.ellipsis) {
      term.ellipsis = term.letters.size();
      i += 2;
    } else {
      throw DataError(fmt::format("its equation has '{}' in a place where it means nothing", letter));
    }
  }
  return term;
}

Equation parse(std::string text) {
  std::erase(text, ' ');
  Equation equation;
  const std::size_t arrow = text.find("->");
  if (arrow != std::string::npos) equation.output = parse_term(text.substr(arrow + 2));
  std::string left = text.substr(0, arrow);
  for (std::size_t comma = 0; comma != std::string::npos;) {
    comma = left.find(',');
    equation.inputs.push_back(parse_term(left.substr(0, comma)));
    if (comma != std::string::npos) left.erase(0, comma + 1);
  }
  return equation;
}

// Without an arrow: the axes of the ellipsis, then the letters that are there once, in the alphabet's order.
Labels implied_output(const std::vector<Labels>& inputs, int ellipsis_axes) {
  std::map<int, int> counts;
  for (const Labels& labels : inputs) {
    for (const int label : labels) ++counts[label];
  }
  Labels output;
  for (int axis = ellipsis_axes; axis-- > 0;) output.push_back(kLetters + axis);
  for (const auto& [label, count] : counts) {
    if (label < kLetters && count == 1) output.push_back(label);
  }
  return output;
}

class Einsum {
 public:
  Einsum(GraphImporter& graph, const ImportedNode& node) : graph_(graph), node_(node) {}

  Operand make(const Equation& equation) {
    name_axes(equation);
    std::vector<Labeled> operands;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i)
      operands.push_back(without_repeats({node_.inputs[i], labels_[i]}));
    Labeled product = operands[0];
    for (std::size_t i = 1; i < operands.size(); ++i) {
      Labels later = output_;
      for (std::size_t k = i + 1; k < operands.size(); ++k)
        later.insert(later.end(), operands[k].labels.begin(), operands[k].labels.end());
      product = multiply(std::move(product), operands[i], later);
    }
    product = summed(std::move(product), output_);
    return graph_.emit(node_.name, "Transpose", {product.value}, {{"perm", order(product.labels, output_)}},
                       node_.outputs[0]);
  }

 private:
  struct Labeled {
    Operand value;
    Labels labels;
  };

  void name_axes(const Equation& equation) {
    if (equation.inputs.size() != node_.inputs.size()) {
      throw DataError(
          fmt::format("has {} inputs, but its equation has {}", node_.inputs.size(), equation.inputs.size()));
    }
    int most = 0;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const Term& term = equation.inputs[i];
      const int rank = graph_.type(node_.inputs[i], 0).shape.rank();
      const int axes = rank - static_cast<int>(term.letters.size());
      if (axes < 0 || (axes > 0 && !term.ellipsis)) {
        throw DataError(
            fmt::format("its input {} has {} axes, but {} in the equation", i, rank, term.letters.size()));
      }
      most = std::max(most, axes);
      labels_.push_back(term.labels(axes));
    }
    output_ = equation.output ? equation.output->labels(most) : implied_output(labels_, most);
    for (const int label : output_) {
      const bool is_made =
          std::ranges::any_of(labels_, [&](const Labels& labels) { return contains(labels, label); });
      if (!is_made || std::ranges::count(output_, label) > 1)
        throw DataError("the output of its equation has a letter twice, or one that no input has");
    }
  }

  Operand emit(const char* type, const std::vector<Operand>& inputs, const Attributes& attributes = {}) {
    return graph_.emit(fmt::format("{}.{}", node_.name, type), type, inputs, attributes);
  }

  static Integers order(const Labels& from, const Labels& to) {
    Integers perm;
    for (const int label : to) perm.push_back(std::ranges::find(from, label) - from.begin());
    return perm;
  }

  Operand transposed(const Labeled& x, const Labels& to) {
    if (x.labels == to) return x.value;
    return emit("Transpose", {x.value}, {{"perm", order(x.labels, to)}});
  }

  // x with axes joined: each group of neighbours becomes one axis, an empty one an axis of 1.
  Operand joined(const Operand& x, const std::vector<std::size_t>& groups) {
    const AtProbes<Shape> shapes = graph_.shapes(x);
    AtProbes<Integers> to;
    for (std::size_t probe = 0; probe < kProbes; ++probe) {
      int axis = 0;
      for (const std::size_t group : groups) {
        std::int64_t size = 1;
        for (std::size_t i = 0; i < group; ++i) size *= shapes[probe][axis++];
        to[probe].push_back(size);
      }
    }
    return reshaped(x, to);
  }

  Operand reshaped(const Operand& x, const AtProbes<Integers>& to) {
    const AtProbes<Shape> from = graph_.shapes(x);
    bool is_same = true;
    for (std::size_t probe = 0; probe < kProbes; ++probe)
      is_same = is_same && std::ranges::equal(from[probe].dims(), to[probe]);
    return is_same ? x : graph_.reshape(node_.name + ".Reshape", x, to, true, {});
  }

  // "ii": the diagonal, every n + 1st of the n * n elements of the two axes.
  Labeled without_repeats(Labeled x) {
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      const int label = x.labels[i];
      if (std::ranges::count(x.labels, label) < 2) continue;
      Labels others;
      Integers perm, pair;
      for (std::size_t axis = 0; axis < x.labels.size(); ++axis) {
        const bool is_of_pair = x.labels[axis] == label && pair.size() < 2;
        (is_of_pair ? pair : perm).push_back(static_cast<std::int64_t>(axis));
        if (!is_of_pair) others.push_back(x.labels[axis]);
      }
      perm.insert(perm.end(), pair.begin(), pair.end());
      const Operand turned = emit("Transpose", {x.value}, {{"perm", perm}});
      const Shape shape = graph_.type(turned, 0).shape;
      if (shape[-1] != shape[-2]) throw DataError(fmt::format("has no diagonal in {}", shape.to_string()));
      std::vector<std::size_t> groups(others.size(), 1);
      groups.push_back(2);
      const Operand flat = joined(turned, groups);
      const Integers last{-1};
      x.value = emit("Slice", {flat},
                     {{"starts", Integers{0}},
                      {"ends", Integers{shape[-1] * shape[-1]}},
                      {"axes", last},
                      {"steps", Integers{shape[-1] + 1}}});
      others.push_back(label);
      x.labels = others;
      i = 0;
    }
    return x;
  }

  // Summed over what is not `needed`.
  Labeled summed(Labeled x, const Labels& needed) {
    Integers axes;
    Labels left;
    for (std::size_t axis = 0; axis < x.labels.size(); ++axis) {
      if (contains(needed, x.labels[axis])) {
        left.push_back(x.labels[axis]);
      } else {
        axes.push_back(static_cast<std::int64_t>(axis));
      }
    }
    if (axes.empty()) return x;
    return {emit("ReduceSum", {x.value}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}), left};
  }

  // The product of two operands, summed over the axes that nobody needs `later`.
  Labeled multiply(Labeled a, Labeled b, const Labels& later) {
    const auto with = [](Labels labels, const Labels& more) {
      labels.insert(labels.end(), more.begin(), more.end());
      return labels;
    };
    a = summed(std::move(a), with(later, b.labels));
    b = summed(std::move(b), with(later, a.labels));
    Labels both, rows, columns, inner;
    for (const int label : a.labels) {
      Labels& kind = !contains(b.labels, label) ? rows : contains(later, label) ? both : inner;
      kind.push_back(label);
    }
    for (const int label : b.labels) {
      if (!contains(a.labels, label)) columns.push_back(label);
    }
    const Labels result = with(with(both, rows), columns);
    if (inner.empty()) return {aligned(a, b, both, rows, columns), result};
    const Operand left = transposed(a, with(with(both, rows), inner));
    const Operand right = transposed(b, with(with(both, inner), columns));
    std::vector<std::size_t> matrices(both.size(), 1);
    std::vector<std::size_t> left_groups = matrices;
    std::vector<std::size_t> right_groups = matrices;
    left_groups.insert(left_groups.end(), {rows.size(), inner.size()});
    right_groups.insert(right_groups.end(), {inner.size(), columns.size()});
    const Operand product = emit("MatMul", {joined(left, left_groups), joined(right, right_groups)});
    return {
        reshaped(product, shape_of_product(left, right, product, both.size(), rows.size(), columns.size())),
        result};
  }

  // Of both axes, rows and columns, where the first may be repeated in either operand.
  AtProbes<Integers> shape_of_product(const Operand& left, const Operand& right, const Operand& product,
                                      std::size_t both, std::size_t rows, std::size_t columns) const {
    AtProbes<Integers> to;
    for (std::size_t probe = 0; probe < kProbes; ++probe) {
      const Shape of_product = graph_.type(product, probe).shape;
      const Shape of_left = graph_.type(left, probe).shape;
      const Shape of_right = graph_.type(right, probe).shape;
      const auto add = [&](const Shape& shape, std::size_t first, std::size_t count) {
        for (std::size_t i = first; i < first + count; ++i) to[probe].push_back(shape[static_cast<int>(i)]);
      };
      add(of_product, 0, both);
      add(of_left, both, rows);
      add(of_right, static_cast<std::size_t>(of_right.rank()) - columns, columns);
    }
    return to;
  }

  // a b where nothing is summed: axes of one operand alone are 1 in the other.
  Operand aligned(const Labeled& a, const Labeled& b, const Labels& both, const Labels& rows,
                  const Labels& columns) {
    const auto spread = [&](const Labeled& x, const Labels& own, std::size_t before, std::size_t after) {
      Labels labels = both;
      labels.insert(labels.end(), own.begin(), own.end());
      const Operand turned = transposed(x, labels);
      Integers axes;
      for (std::size_t i = 0; i < before; ++i) axes.push_back(static_cast<std::int64_t>(both.size() + i));
      for (std::size_t i = 0; i < after; ++i)
        axes.push_back(static_cast<std::int64_t>(both.size() + own.size() + before + i));
      return axes.empty() ? turned : emit("Unsqueeze", {turned}, {{"axes", axes}});
    };
    return emit("Mul", {spread(a, rows, 0, columns.size()), spread(b, columns, rows.size(), 0)});
  }

  GraphImporter& graph_;      // outlives this: both live in import_einsum()
  const ImportedNode& node_;  // as graph_
  std::vector<Labels> labels_;
  Labels output_;
};

Operands import_einsum(GraphImporter& graph, ImportedNode& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (std::holds_alternative<std::monostate>(node.inputs[i]))
      throw DataError(fmt::format("lacks its input {}", i));
  }
  const auto found = node.attributes.find("equation");
  const auto* text = found == node.attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
  if (text == nullptr || node.attributes.size() != 1) throw DataError("needs one attribute, its equation");
  return {with_context(fmt::format("\"{}\"", *text), [&] { return Einsum(graph, node).make(parse(*text)); })};
}

}  // namespace

ImportTable einsum_imports() {
  return {{"Einsum", import_einsum}};
}

}  // namespace rookery
