package ordered_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

func TestObjectKeepsOrder(t *testing.T) {
	t.Parallel()
	o := ordered.NewObject()
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key", 100-i))
		o.Set(keys[i], int64(i))
	}
	o.Set(keys[50], "changed")
	c := o.Clone()
	c.Set("new", true)
	c.Set(keys[0], nil)
	require.Equal(t, keys, o.Keys())
	require.Equal(t, append(keys, "new"), c.Keys())
	i := 0
	for key, value := range o.All() {
		require.Equal(t, keys[i], key)
		want, _ := o.Get(key)
		require.Equal(t, want, value)
		i++
	}
	require.Equal(t, o.Len(), i)
	v, ok := o.Get(keys[50])
	require.True(t, ok)
	require.Equal(t, "changed", v)
	v, _ = o.Get(keys[0])
	require.Equal(t, int64(0), v)
	_, ok = o.Get("new")
	require.False(t, ok)
}
