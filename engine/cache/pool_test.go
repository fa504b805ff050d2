package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Random reservations, growth and releases keep every page in one place, and every promise kept.
func TestPoolKeepsItsPages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pages, size := rapid.IntRange(1, 20).Draw(t, "pages"), rapid.IntRange(1, 5).Draw(t, "page size")
		p := NewPool(pages, size)
		reserved := map[*Table]int{} // positions
		promised := func() (n int) {
			for _, positions := range reserved {
				n += p.Needed(positions)
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			tables := make([]*Table, 0, len(reserved))
			for table := range reserved {
				tables = append(tables, table)
			}
			switch rapid.IntRange(0, 2).Draw(t, "operation") {
			case 0:
				n := rapid.IntRange(1, pages*size+1).Draw(t, "positions")
				fits := promised()+p.Needed(n) <= pages
				table := p.Reserve(n)
				require.Equal(t, fits, table != nil)
				if fits {
					reserved[table] = n
				}
			case 1:
				for _, table := range tables {
					n := rapid.IntRange(0, reserved[table]).Draw(t, "grow to")
					table.Grow(n)
					require.GreaterOrEqual(t, len(table.Pages())*size, n)
				}
			case 2:
				for _, table := range tables[:len(tables)/2] {
					table.Release()
					require.Empty(t, table.Pages())
					table.Release()
					delete(reserved, table)
				}
			}
			checkOwners(t, p, reserved)
		}
		for table := range reserved {
			table.Release()
		}
		require.Zero(t, p.Used())
		require.NotNil(t, p.Reserve(pages*size), "all pages can be had again")
	})
}

func checkOwners(t *rapid.T, p *Pool, tables map[*Table]int) {
	owned, used := make([]int, p.Pages()), 0
	for table, positions := range tables {
		require.LessOrEqual(t, len(table.Pages()), p.Needed(positions))
		for _, page := range table.Pages() {
			owned[page]++
			used++
			require.Equal(t, 1, owned[page], "page %d is in two tables", page)
		}
	}
	require.Equal(t, used, p.Used())
}

func TestGrowKeepsThePagesThatAreThere(t *testing.T) {
	t.Parallel()
	p := NewPool(4, 16)
	require.Equal(t, 16, p.PageSize())
	table := p.Reserve(64)
	table.Grow(1)
	require.Equal(t, []int32{0}, table.Pages())
	table.Grow(16)
	require.Equal(t, []int32{0}, table.Pages())
	table.Grow(17)
	require.Equal(t, []int32{0, 1}, table.Pages())
	require.Panics(t, func() { table.Grow(65) })
}
