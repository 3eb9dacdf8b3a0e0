#include "trainer/data/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <regex>
#include <string>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/support/gathered.hpp"
#include "tests/support/problem.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/readers.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string gzipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string big_endian(std::initializer_list<std::uint32_t> words) {
  std::string bytes;
  for (const std::uint32_t word : words) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(word >> shift & 0xFF);
  }
  return bytes;
}

constexpr std::uint32_t kImagesMagic = 0x00000803;
constexpr std::uint32_t kLabelsMagic = 0x00000801;

class DatasetTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& bytes) const { write_file(folder_ / name, bytes); }
  std::unique_ptr<Dataset> open(const std::string& name) const { return open_dataset(name, folder_); }

  // A folder with two images of 2x3 and their labels.
  void put_idx() const {
    put("images-idx3-ubyte", big_endian({kImagesMagic, 2, 2, 3}) + std::string("\x00\x33\x66\x99\xCC\xFF"
                                                                               "abcdef",
                                                                               12));
    put("labels-idx1-ubyte", big_endian({kLabelsMagic, 2}) + std::string("\x07\x01", 2));
  }

  std::string csv_problem(const std::string& text) const {
    put("x.csv", text);
    return problem<DataError>([&] { open("csv:x.csv"); });
  }
  std::string idx_problem() const {
    return problem<DataError>([&] { open("idx:."); });
  }

  const ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

TEST_F(DatasetTest, Digits) {
  const auto digits = open_dataset("digits", kNodeData);
  EXPECT_EQ(digits->size(), 1797);
  EXPECT_EQ(digits->tensors(),
            (ValueTypes{{"input", {DType::kF32, {kBatch, 64}}}, {kLabels, {DType::kI64, {kBatch}}}}));
  const std::vector<float> samples = gathered<float>(*digits, "input", {1, 0});
  EXPECT_EQ(gathered<std::int64_t>(*digits, kLabels, {1, 0}), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(samples[3], 12.0F / 16);
  EXPECT_EQ(samples[64 + 2], 5.0F / 16);
}

TEST_F(DatasetTest, MnistTestImages) {
  const auto mnist = open_dataset("idx:datasets/mnist", kNodeData);
  EXPECT_EQ(mnist->size(), 10000);
  EXPECT_EQ(mnist->tensors().at("input"), (TensorType{DType::kF32, {kBatch, 784}}));
  std::vector<std::int64_t> ids(10000);
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<std::int64_t> labels = gathered<std::int64_t>(*mnist, kLabels, ids);
  EXPECT_EQ(labels[0], 7);
  EXPECT_EQ(std::ranges::count(labels, 0), 980);
  const std::vector<float> sample = gathered<float>(*mnist, "input", {0});
  EXPECT_EQ(*std::ranges::max_element(sample), 1.0F);
}

TEST_F(DatasetTest, CsvWithScaleBlankTailAndCarriageReturns) {
  put("x.csv", "1,2.5,0\r\n -3 ,4e1,2\r\n\r\n\n");
  const auto data = open("csv:x.csv?scale=0.5");
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(gathered<float>(*data, "input", {0, 1}), (std::vector<float>{2, 5, -6, 80}));
  EXPECT_EQ(gathered<std::int64_t>(*data, kLabels, {0, 1}), (std::vector<std::int64_t>{0, 2}));
}

TEST_F(DatasetTest, CsvWithoutLastNewlineAndGzipped) {
  put("x.csv.gz", gzipped("1,2,0\n3,4,1"));
  EXPECT_EQ(open("csv:x.csv.gz")->size(), 2);
}

TEST_F(DatasetTest, CsvLinesThatAreWrong) {
  EXPECT_THAT(csv_problem("1,2,0\n1,0\n"),
              AllOf(HasSubstr("x.csv: line 2: "), HasSubstr("has 1 values, the first line has 2")));
  EXPECT_THAT(csv_problem("1,nan,0\n"), HasSubstr("line 1: value 2: 'nan' is not a finite number"));
  EXPECT_THAT(csv_problem("inf,1,0\n"), HasSubstr("value 1: 'inf'"));
  EXPECT_THAT(csv_problem("1,1e99,0\n"), HasSubstr("value 2: '1e99'"));
  EXPECT_THAT(csv_problem("1,,0\n"), HasSubstr("value 2: ''"));
  EXPECT_THAT(csv_problem("a,b,label\n1,2,0\n"), HasSubstr("line 1: value 1: 'a'"));
  EXPECT_THAT(csv_problem("1,2,0\n1,2,0.5\n"), HasSubstr("line 2: the label '0.5' is not an integer"));
  EXPECT_THAT(csv_problem("1,2,-1\n"), HasSubstr("the label '-1'"));
  EXPECT_THAT(csv_problem("1,2,99999999999999999999\n"), HasSubstr("the label '99999999999999999999'"));
  EXPECT_THAT(csv_problem("1,2,16777216\n"), HasSubstr("from 0 to 16777215"));
  EXPECT_THAT(csv_problem("3\n"), HasSubstr("has a label but no values"));
  EXPECT_THAT(csv_problem("1,0\n\n1,0\n"), HasSubstr("line 3: follows line 2, which is empty"));
  EXPECT_THAT(csv_problem(""), HasSubstr("has no samples"));
  EXPECT_THAT(csv_problem(std::string("1,\0,0\n", 6)), HasSubstr("value 2"));
}

TEST_F(DatasetTest, MissingFilesAreNamed) {
  EXPECT_THAT(problem<DataError>([&] { open("csv:none.csv"); }), HasSubstr("none.csv: cannot read"));
  EXPECT_THAT(problem<DataError>([&] { open("idx:none"); }),
              HasSubstr("none: is no folder, nor is there a file"));
  EXPECT_THAT(problem<DataError>([&] { open("digits"); }), HasSubstr("digits.csv.gz"));
  EXPECT_THROW(open("cifar"), ConfigError);
  EXPECT_THROW(open("csv:x.csv?scale=0"), ConfigError);
  EXPECT_THROW(open("csv:x.csv?scale=ten"), ConfigError);
}

TEST_F(DatasetTest, TruncatedGzip) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i * 7919 % 1000) + ",0\n";
  const std::string whole = gzipped(text);
  put("whole.csv.gz", whole);
  EXPECT_EQ(open("csv:whole.csv.gz")->size(), 1000);
  for (const std::size_t kept : {whole.size() / 2, whole.size() - 1, whole.size() - 8}) {
    put("x.csv.gz", whole.substr(0, kept));
    EXPECT_THAT(problem<DataError>([&] { open("csv:x.csv.gz"); }), HasSubstr("an incomplete copy?")) << kept;
  }
}

TEST_F(DatasetTest, DamagedGzip) {
  std::string bytes = gzipped("1,2,0\n3,4,1\n");
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);  // of the checksum
  put("x.csv.gz", bytes);
  EXPECT_THAT(problem<DataError>([&] { open("csv:x.csv.gz"); }), HasSubstr("x.csv.gz: after"));
}

TEST_F(DatasetTest, NamesMustSayWhatIsGzip) {
  put("x.csv.gz", "1,2,0\n");
  EXPECT_THAT(problem<DataError>([&] { open("csv:x.csv.gz"); }),
              HasSubstr("its name says gzip, its content does not"));
  put("x.csv", gzipped("1,2,0\n"));
  EXPECT_THAT(problem<DataError>([&] { open("csv:x.csv"); }), HasSubstr("its name must end in .gz"));
}

TEST_F(DatasetTest, InflationIsBounded) {
  std::string text;
  while (text.size() < (1 << 20)) text += "0,0,0\n";
  put("x.csv.gz", gzipped(text));
  EXPECT_EQ(read_csv(folder_ / "x.csv.gz", 1, {}, 2 << 20)->tensors().at("input").shape[1], 2);
  EXPECT_THAT(problem<DataError>([&] { read_csv(folder_ / "x.csv.gz", 1, {}, 1 << 19); }),
              HasSubstr("more than the 524288 bytes that a data set may have"));
}

TEST_F(DatasetTest, IdxPair) {
  put_idx();
  const auto data = open("idx:.");
  EXPECT_EQ(data->size(), 2);
  const std::vector<float> sample = gathered<float>(*data, "input", {0});
  ASSERT_EQ(sample.size(), 6U);
  EXPECT_EQ(sample[5], 1.0F);
  EXPECT_EQ(sample[1], 0.2F);
  EXPECT_EQ(gathered<std::int64_t>(*data, kLabels, {0}), std::vector<std::int64_t>{7});
}

TEST_F(DatasetTest, SamplesMayBeImages) {
  put_idx();
  const auto idx = open("idx:.?image=1");
  EXPECT_EQ(idx->tensors().at("input"), (TensorType{DType::kF32, {kBatch, 1, 2, 3}}));
  EXPECT_EQ(gathered<float>(*idx, "input", {1, 0}), gathered<float>(*open("idx:."), "input", {1, 0}));
  put("x.csv", "1,2,3,4,0\n5,6,7,8,1\n");
  const auto csv = open("csv:x.csv?height=2&width=2");
  EXPECT_EQ(csv->tensors().at("input"), (TensorType{DType::kF32, {kBatch, 1, 2, 2}}));
  EXPECT_EQ(open("csv:x.csv?channels=4")->tensors().at("input"),
            (TensorType{DType::kF32, {kBatch, 4, 1, 1}}));
  EXPECT_THAT(problem<DataError>([&] { open("csv:x.csv?height=2&width=3"); }),
              HasSubstr("x.csv: has 4 values a line, images of [1, 2, 3] have 6"));
}

TEST_F(DatasetTest, IdxWrongMagic) {
  put_idx();
  put("labels-idx1-ubyte", big_endian({kImagesMagic, 2}) + "ab");
  EXPECT_THAT(idx_problem(),
              AllOf(HasSubstr("labels-idx1-ubyte: begins with 0x00000803"), HasSubstr("0x00000801")));
}

TEST_F(DatasetTest, IdxCountsThatDisagree) {
  put_idx();
  put("labels-idx1-ubyte", big_endian({kLabelsMagic, 3}) + "\x01\x02\x03");
  EXPECT_THAT(idx_problem(), AllOf(HasSubstr("2 images, but 3 labels"), HasSubstr("labels-idx1-ubyte")));
}

TEST_F(DatasetTest, IdxShorterAndLongerThanItsHeaderSays) {
  put_idx();
  put("labels-idx1-ubyte", big_endian({kLabelsMagic, 2}) + "\x01");
  EXPECT_THAT(idx_problem(), HasSubstr("holds 1 values where its header says 2"));
  put("labels-idx1-ubyte", big_endian({kLabelsMagic, 2}) + "\x01\x02\x03");
  EXPECT_THAT(idx_problem(), HasSubstr("holds more than the 2 values"));
  put("labels-idx1-ubyte", big_endian({kLabelsMagic}) + "\x01");
  EXPECT_THAT(idx_problem(), HasSubstr("ends within its header"));
}

TEST_F(DatasetTest, AnIdxFileThatIsThereTwiceIsRefused) {
  put_idx();
  put("labels-idx1-ubyte.gz", "");
  EXPECT_THAT(idx_problem(), HasSubstr("labels-idx1-ubyte: is there as labels-idx1-ubyte.gz, too"));
}

TEST_F(DatasetTest, PartsOfAnIdxSetBelongTogether) {
  for (const char* part :
       {"1-images-idx3-ubyte", "2-images-idx3-ubyte", "2-labels-idx1-ubyte", "3-labels-idx1-ubyte"})
    put(part, "");
  EXPECT_THAT(idx_problem(), AllOf(HasSubstr("1-images"), HasSubstr("3-labels")));
}

TEST_F(DatasetTest, IdxHugeDimensionsTakeNoMemory) {
  put_idx();
  constexpr std::uint32_t kHuge = 1U << 31;
  put("images-idx3-ubyte", big_endian({kImagesMagic, kHuge, kHuge, kHuge}) + "abc");
  EXPECT_THAT(idx_problem(), AllOf(HasSubstr("2147483648"), HasSubstr("can hold at most 19 values")));
  put("images-idx3-ubyte", big_endian({kImagesMagic, 4, kHuge, kHuge}) + "abc");  // 2^64: 0 when it wraps
  EXPECT_THAT(idx_problem(), HasSubstr("can hold at most"));
  put("images-idx3-ubyte", big_endian({kImagesMagic, 0, 2, 3}));
  EXPECT_THAT(idx_problem(), HasSubstr("dimensions 0"));
  std::filesystem::remove(folder_ / "images-idx3-ubyte");
  put("images-idx3-ubyte.gz", gzipped(big_endian({kImagesMagic, 1000, 1000, 1000}) + "abc"));
  EXPECT_THAT(idx_problem(), AllOf(HasSubstr("1000 x 1000"), HasSubstr("can hold at most")));
}

TEST_F(DatasetTest, IdxFolderWithSeveralPairsNamesThem) {
  put_idx();
  put("t10k-images-idx3-ubyte.gz", "");
  EXPECT_THAT(idx_problem(), AllOf(HasSubstr("images-idx3-ubyte, t10k-images-idx3-ubyte.gz")));
  std::filesystem::remove(folder_ / "t10k-images-idx3-ubyte.gz");
  std::filesystem::remove(folder_ / "labels-idx1-ubyte");
  EXPECT_THAT(idx_problem(), HasSubstr("has no file *labels-idx1-ubyte[.gz]"));
}

TEST_F(DatasetTest, IdxInPartsThatFollowEachOther) {
  const auto put_part = [&](const std::string& part, std::uint32_t width, const std::string& pixels) {
    put("train-" + part + "-images-idx3-ubyte.gz", gzipped(big_endian({kImagesMagic, 1, 1, width}) + pixels));
    put("train-" + part + "-labels-idx1-ubyte", big_endian({kLabelsMagic, 1}) + pixels[0]);
  };
  put_part("00", 2, "\x01\x02");
  put_part("01", 2, "\x03\x04");
  const auto data = open("idx:.");
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(gathered<std::int64_t>(*data, kLabels, {0, 1}), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(gathered<float>(*data, "input", {1}), (std::vector<float>{3.0F / 255, 4.0F / 255}));
  put_part("01", 3, "\x03\x04\x05");
  EXPECT_THAT(idx_problem(), HasSubstr("has images of 1 x 3, the first part of the set of 1 x 2"));
  put_part("02", 2, "\x03\x04");
  std::filesystem::remove(folder_ / "train-02-labels-idx1-ubyte");
  EXPECT_THAT(idx_problem(), HasSubstr("3 files of images"));
}

std::string low_byte_first(std::initializer_list<std::uint32_t> numbers, int bytes) {
  std::string text;
  for (const std::uint32_t number : numbers) {
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xFF);
  }
  return text;
}

TEST_F(DatasetTest, TokensFollowEachOtherAndLabelsThem) {
  put("t.bin", low_byte_first({5, 300, 7, 8, 9, 10, 11, 12}, 2));
  const auto tokens = open("tokens:t.bin?length=3");
  ASSERT_EQ(tokens->size(), 2);
  EXPECT_EQ(gathered<std::int64_t>(*tokens, "input", {1, 0}),
            (std::vector<std::int64_t>{8, 9, 10, 5, 300, 7}));
  EXPECT_EQ(gathered<std::int64_t>(*tokens, "labels", {1, 0}),
            (std::vector<std::int64_t>{9, 10, 11, 300, 7, 8}));
  put("wide.bin", low_byte_first({70000, 1, 2}, 4));
  EXPECT_EQ(gathered<std::int64_t>(*open("tokens:wide.bin?length=2&type=u32"), "input", {0}),
            (std::vector<std::int64_t>{70000, 1}));
}

TEST_F(DatasetTest, TokensThatAreNoneAreErrors) {
  EXPECT_THAT(problem<DataError>([&] { open("tokens:none.bin"); }), HasSubstr("none.bin: cannot read"));
  put("t.bin", low_byte_first({5, 300, 7}, 2) + "x");
  EXPECT_THAT(problem<DataError>([&] { open("tokens:t.bin?length=2"); }),
              HasSubstr("7 bytes are no whole number of tokens of 2"));
  put("t.bin", low_byte_first({5, 300, 7}, 2));
  EXPECT_THAT(problem<DataError>([&] { open("tokens:t.bin?length=3"); }),
              HasSubstr("has 3 tokens, a sample takes 3"));
  put("t.bin", "");
  EXPECT_THAT(problem<DataError>([&] { open("tokens:t.bin"); }), HasSubstr("has 0 tokens"));
  put("t.bin", low_byte_first({5, 300, 7}, 2));
  const auto few = open("tokens:t.bin?length=2&words=300");
  EXPECT_THAT(problem<DataError>([&] { gathered<std::int64_t>(*few, "input", {0}); }),
              AllOf(HasSubstr("token 1 is 300"), HasSubstr("0 to 299")));
}

TEST_F(DatasetTest, NamesThatAreNoneAreToldWhichThereAre) {
  const auto told = [&](const std::string& name) -> std::string {
    try {
      open(name);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(told("cifar"),
            "data: 'cifar' is not \"digits\", \"sorter\", \"masked_words\", \"shapes\", \"csv:FILE\", "
            "\"idx:FOLDER\", \"images:FOLDER\", \"webdataset:SHARDS\", \"numpy:FILE\", \"tensors:FILE\" or "
            "\"tokens:FILE\"");
  EXPECT_EQ(told("own:mine"),
            "data: 'own:mine' is made by a program of one's own, which is the Root in place of provider "
            "(docs/library.md)");
  EXPECT_EQ(told("digits?scale=2"), "digits has no option 'scale'; it has none");
}

TEST(DataFormats, ThePatternFitsNamesOfEachAndNothingElse) {
  const std::regex pattern(data_pattern());
  const auto fits = [&](const std::string& name) { return std::regex_search(name, pattern); };
  for (const DataFormat& format : data_formats()) EXPECT_TRUE(fits(format.name)) << format.name;
  for (const char* name : {"sorter?digits=4", "shapes?", "csv:a?scale=2", "own:x"})
    EXPECT_TRUE(fits(name)) << name;
  for (const char* name : {"", "csv:", "idx", "digits?scale=2", "sorters", "my csv:a"})
    EXPECT_FALSE(fits(name)) << name;
}

// By which Roots know that theirs is the copy that the plan was made for.
TEST_F(DatasetTest, TheDigestIsOfValuesAndLabels) {
  const auto digest_of = [&](const std::string& lines) {
    put("x.csv", lines);
    return open("csv:x.csv")->digest();
  };
  const std::uint64_t digest = digest_of("1,2,0\n3,4,1\n");
  EXPECT_NE(digest, 0U);
  EXPECT_EQ(digest_of("1,2.0,0\r\n3,4,1\n"), digest);  // another text of the same numbers
  EXPECT_NE(digest_of("1,2,0\n3,5,1\n"), digest);
  EXPECT_NE(digest_of("1,2,0\n3,4,0\n"), digest);
}

class TensorsTest : public DatasetTest {
 protected:
  TensorsTest() {
    all_.emplace("input_ids", Tensor(DType::kI64, {3, 4}));
    all_.emplace("labels", Tensor(DType::kI64, {3, 4}));
    all_.emplace("price", Tensor(DType::kF32, {3}));
    std::iota(all_.at("input_ids").as<std::int64_t>().begin(), all_.at("input_ids").as<std::int64_t>().end(),
              0);
    all_.at("price").as<float>()[2] = 2.5F;
  }
  std::string tensors_problem() {
    write_safetensors(folder_ / "data.safetensors", all_);
    return problem<DataError>([&] { open("tensors:data.safetensors"); });
  }

  StateDict all_;
};

TEST_F(TensorsTest, AreHandedOutByName) {
  write_safetensors(folder_ / "data.safetensors", all_);
  const auto data = open("tensors:data.safetensors");
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->tensors(), (ValueTypes{{"input_ids", {DType::kI64, {kBatch, 4}}},
                                         {"labels", {DType::kI64, {kBatch, 4}}},
                                         {"price", {DType::kF32, {kBatch}}}}));
  EXPECT_EQ(gathered<std::int64_t>(*data, "input_ids", {2, 0}),
            (std::vector<std::int64_t>{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(gathered<float>(*data, "price", {2, 1, 2}), (std::vector<float>{2.5F, 0, 2.5F}));
}

TEST_F(TensorsTest, TheDigestIsOfNamesTypesAndNumbers) {
  const auto digest = [&] {
    write_safetensors(folder_ / "data.safetensors", all_);
    return open("tensors:data.safetensors")->digest();
  };
  const std::uint64_t before = digest();
  EXPECT_EQ(digest(), before);
  all_.at("price").as<float>()[0] = 1;
  EXPECT_NE(digest(), before);
  all_.at("price").as<float>()[0] = 0;
  all_["cost"] = std::move(all_.at("price"));
  all_.erase("price");
  EXPECT_NE(digest(), before);
}

TEST_F(TensorsTest, WithoutOneNumberOfSamplesAreRefused) {
  all_.emplace("z", Tensor(DType::kF32, {2, 5}));
  EXPECT_THAT(tensors_problem(), AllOf(HasSubstr("data.safetensors: 'z' has 2 samples, 'input_ids' has 3")));
  all_.erase("z");
  all_.emplace("z", Tensor(DType::kF32, {}));
  EXPECT_THAT(tensors_problem(), HasSubstr("'z' is f32[]: it has no samples"));
  all_.clear();
  EXPECT_THAT(tensors_problem(), HasSubstr("has no tensors"));
}

TEST_F(TensorsTest, NumbersThatAreNotFiniteAreNamed) {
  all_.at("price").as<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(tensors_problem(), HasSubstr("'price': sample 1 has the value nan"));
}

// As those of a set that is larger than memory.
TEST_F(TensorsTest, WithoutACacheSamplesAreReadWhenTheyAreWanted) {
  write_safetensors(folder_ / "data.safetensors", all_);
  const auto whole = open("tensors:data.safetensors");
  const auto stored = open_dataset("tensors:data.safetensors", folder_, {.cache_mib = 0});
  EXPECT_TRUE(whole->is_at_hand());
  EXPECT_FALSE(stored->is_at_hand());
  EXPECT_EQ(stored->bytes(), 0);
  EXPECT_EQ(stored->tensors(), whole->tensors());
  const std::vector<std::int64_t> ids{2, 0, 2, 1};
  EXPECT_EQ(gathered<std::int64_t>(*stored, "input_ids", ids),
            gathered<std::int64_t>(*whole, "input_ids", ids));
  EXPECT_EQ(gathered<float>(*stored, "price", ids), gathered<float>(*whole, "price", ids));
}

TEST_F(TensorsTest, WithoutACacheABadNumberIsNamedWhenItsSampleIsRead) {
  all_.at("price").as<float>()[1] = std::numeric_limits<float>::infinity();
  write_safetensors(folder_ / "data.safetensors", all_);
  const auto stored = open_dataset("tensors:data.safetensors", folder_, {.cache_mib = 0});
  EXPECT_EQ(gathered<float>(*stored, "price", {2}), (std::vector<float>{2.5F}));
  EXPECT_THAT(problem<DataError>([&] {
                gathered<float>(*stored, "price", {2, 1});
              }),
              HasSubstr("data.safetensors: 'price': sample 1 has the value inf"));
}

TEST_F(TensorsTest, AFileThatBecomesShorterIsAnError) {
  write_safetensors(folder_ / "data.safetensors", all_);
  const auto stored = open_dataset("tensors:data.safetensors", folder_, {.cache_mib = 0});
  std::filesystem::resize_file(folder_ / "data.safetensors",
                               std::filesystem::file_size(folder_ / "data.safetensors") - 8);
  EXPECT_THAT(problem<DataError>([&] {
                for (const auto& [name, type] : stored->tensors()) {
                  Tensor sample(type.dtype, type.shape.with_batch(1));
                  const std::int64_t last = 2;
                  stored->gather(name, std::span(&last, 1), sample.view());
                }
              }),
              HasSubstr("data.safetensors"));
}

TEST_F(TensorsTest, FilesThatAreNoneAreNamed) {
  put("data.safetensors", "not one");
  EXPECT_THAT(problem<DataError>([&] { open("tensors:data.safetensors"); }), HasSubstr("data.safetensors"));
}

}  // namespace
}  // namespace rookery
