// What is known of a bucket without asking it: whom to ask, and what answers mean.
#include "trainer/storage/remote/s3.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/problem.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(S3Listing, HasKeysSizesAndWhereItGoesOn) {
  const S3Listing listing = s3_listing_from(
      R"(<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>)"
      R"(<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b==</NextContinuationToken>)"
      R"(<Contents><Key>cats/a%20b%2Bc.jpg</Key><Size>12</Size><ETag>&quot;0f&#34;</ETag></Contents>)"
      R"(<Contents><ETag>"1"</ETag><Size>18446744073709551615</Size><Key>x</Key></Contents></ListBucketResult>)");
  EXPECT_THAT(listing.objects, ElementsAre(S3Object{"cats/a b+c.jpg", 12, "\"0f\""},
                                           S3Object{"x", 18446744073709551615U, "\"1\""}));
  EXPECT_EQ(listing.continuation, "a&b==");
  EXPECT_EQ(s3_listing_from("<ListBucketResult><Contents><Key>a</Key><Size>1</Size><LastModified>2026-01-31T"
                            "12:00:00.000Z</LastModified></Contents></ListBucketResult>")
                .objects.front()
                .modified,
            "2026-01-31T12:00:00.000Z");
  EXPECT_TRUE(s3_listing_from("<ListBucketResult></ListBucketResult>").objects.empty());
}

TEST(S3Listing, ThatIsNoneIsAnError) {
  EXPECT_THAT(problem([] { s3_listing_from("<html></html>"); }), HasSubstr("no list of objects"));
  const auto list = [](const std::string& inside) {
    return problem([&] { s3_listing_from("<ListBucketResult>" + inside + "</ListBucketResult>"); });
  };
  EXPECT_THAT(list("<IsTruncated>true</IsTruncated>"), HasSubstr("cut short"));
  EXPECT_THAT(list("<Contents><Key>a</Key><Size>-1</Size></Contents>"), HasSubstr("'-1'"));
  EXPECT_THAT(list("<Contents><Key>a</Key></Contents>"), HasSubstr("the key 'a'"));
  EXPECT_THAT(list("<Contents><Key>a%2</Key><Size>1</Size></Contents>"), HasSubstr("'%'"));
}

TEST(S3Listing, ProblemsHaveACodeAndAMessage) {
  const S3Problem told =
      s3_problem_from("<Error><Code>NoSuchKey</Code><Message>not &lt;here&gt;</Message></Error>");
  EXPECT_EQ(told.code, "NoSuchKey");
  EXPECT_EQ(told.message, "not <here>");
  EXPECT_EQ(s3_problem_from("oops").code, "");
}

TEST(S3Listing, KeysAreEncodedAsTheyAreSigned) {
  EXPECT_EQ(percent_encoded("a b+c/ä*", "/"), "a%20b%2Bc/%C3%A4%2A");
  EXPECT_EQ(percent_encoded("a/b"), "a%2Fb");
  EXPECT_EQ(percent_decoded("a%20b+c%2B"), "a b c+");
}

TEST(S3Address, IsABucketAndAKey) {
  EXPECT_EQ(S3Address::of("s3://bucket/a/b").key, "a/b");
  EXPECT_EQ(S3Address::of("s3://bucket").bucket, "bucket");
  for (const char* folder : {"s3://bucket/a/b", "s3://bucket/a/b/", "s3://bucket/a/b//"})
    EXPECT_EQ(S3Address::of_folder(folder).key, "a/b/") << folder;
  EXPECT_EQ(S3Address::of_folder("s3://bucket/").key, "");
  for (const char* wrong : {"s3://", "s3:///a", "s3://ab/c", "s3://buck et/c", "s3://host:1/c"})
    EXPECT_THAT(problem([&] { S3Address::of(wrong); }), HasSubstr("is not s3://BUCKET/KEY")) << wrong;
}

class S3AccessTest : public testing::Test {
 protected:
  S3Access access() const {
    return s3_access([this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    });
  }
  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(folder_.path() / ".aws");
    write_file(folder_.path() / ".aws" / name, text);
  }

  ScratchFolder folder_;
  std::map<std::string, std::string> variables_{{"HOME", folder_.path().string()}};
};

TEST_F(S3AccessTest, IsThatOfAwsWithoutKeysWhereNothingIsSaid) {
  EXPECT_EQ(access().region, "us-east-1");
  EXPECT_EQ(access().key_id, "");
  EXPECT_EQ(access().endpoint, "");
  EXPECT_FALSE(access().is_path_style);
}

TEST_F(S3AccessTest, ComesFromTheEnvironmentFirstThenFromTheProfile) {
  put("credentials",
      "[default]\naws_access_key_id = ID\naws_secret_access_key=a=b/c\n# "
      "comment\n[other]\naws_access_key_id=X\n"
      "aws_secret_access_key=Y\naws_session_token=T\n");
  put("config",
      "[default]\nregion = eu-south-1\nendpoint_url = https://s3.example.org/\ns3 =\n"
      "  addressing_style = virtual\n[profile other]\nregion=xx\n");
  EXPECT_EQ(access().key_id, "ID");
  EXPECT_EQ(access().secret, "a=b/c");
  EXPECT_EQ(access().region, "eu-south-1");
  EXPECT_EQ(access().endpoint, "https://s3.example.org");
  EXPECT_FALSE(access().is_path_style);
  variables_["AWS_PROFILE"] = "other";
  EXPECT_EQ(access().key_id, "X");
  EXPECT_EQ(access().session_token, "T");
  EXPECT_EQ(access().region, "xx");
  variables_.insert({{"AWS_ACCESS_KEY_ID", "E"},
                     {"AWS_SECRET_ACCESS_KEY", "F"},
                     {"AWS_DEFAULT_REGION", "r"},
                     {"AWS_ENDPOINT_URL", "http://127.0.0.1:9000"}});
  EXPECT_EQ(access().key_id, "E");
  EXPECT_EQ(access().session_token, "") << "that of the other key";
  EXPECT_EQ(access().region, "r");
  EXPECT_TRUE(access().is_path_style);
}

TEST_F(S3AccessTest, ThatIsHalfOrNoAddressIsAnError) {
  variables_["AWS_ACCESS_KEY_ID"] = "E";
  EXPECT_THAT(problem([&] { access(); }), HasSubstr("only one is there"));
  variables_.erase("AWS_ACCESS_KEY_ID");
  variables_["AWS_ENDPOINT_URL"] = "127.0.0.1:9000";
  EXPECT_THAT(problem([&] { access(); }), HasSubstr("'127.0.0.1:9000'"));
}

}  // namespace
}  // namespace rookery
