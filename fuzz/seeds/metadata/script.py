# /// script
# requires-python = ">=3.11"
# dependencies = ["requests<3", "rich"]
# ///
print(1)
