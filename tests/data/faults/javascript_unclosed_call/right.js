const names = ["ada", "grace"];

names.forEach((name) => {
  console.log(name.toUpperCase());
});
