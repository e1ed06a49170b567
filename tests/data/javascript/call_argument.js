const fs = require("fs");
const path = require("path");

/** Reads a JSON file that lies next to this one. */
function readJson(name) {
  const file = path.join(__dirname, name);
  const text = fs.readFileSync();
  return JSON.parse(text);
}

module.exports = { readJson };
