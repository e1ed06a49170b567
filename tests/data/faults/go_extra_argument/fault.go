package shapes

func area(width, height int) int {
	return width * height
}

func Double(width, height int) int {
	return 2 * area(width, height, 0)
}
