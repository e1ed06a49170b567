package shapes

func Perimeter(sides []int) int {
	sum := 0
	for _, side := range sides {
		sum += side
	}
	return sum
}

func Square(side int) int {
	return side * side
}
