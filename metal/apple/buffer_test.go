package apple

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	require.Zero(t, d.Memory())
	a, b := newBuffer(t, d, 1000, metal.Shared), newBuffer(t, d, 500, metal.Private)
	require.Equal(t, 1500, d.Memory())
	require.Equal(t, make([]byte, 1000), d.Contents(a))
	require.Panics(t, func() { d.Contents(b) })
	s.Fail(noBuffer, 0, "none")
	_, err := d.NewBuffer(64, metal.Private)
	require.ErrorIs(t, err, metal.ErrMemory)
	require.ErrorContains(t, err, "make a buffer of 64 bytes, with 1500 bytes in use")
	_, err = d.NewBuffer(8<<30+1, metal.Private)
	require.ErrorIs(t, err, metal.ErrMemory)
	_, err = d.NewBuffer(0, metal.Private)
	require.Error(t, err)
	d.FreeBuffer(a)
	require.Equal(t, 500, d.Memory())
	require.Panics(t, func() { d.FreeBuffer(a) })
	require.Equal(t, 2, d.Counters().Buffers)
}

// TestUpload uploads more than the staging memory holds and reads it back with a kernel.
func TestUpload(t *testing.T) {
	t.Parallel()
	d, s := carriedOut(t)
	const size, offset = 2*stagingBytes + 4096, 256
	values := make([]byte, size)
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < size; i += 8 {
		binary.LittleEndian.PutUint64(values[i:], random.Uint64())
	}
	src, dst := newBuffer(t, d, offset+size, metal.Private), newBuffer(t, d, size, metal.Shared)
	require.NoError(t, d.Upload(src, offset, values))
	require.Equal(t, 3, s.Sent("MTLBlitCommandEncoder", "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"))
	require.Equal(t, 2*size+offset+2*stagingBytes, d.Memory())
	args := binary.LittleEndian.AppendUint32(nil, size/4)
	w := one(kernel(t, d, metal.Release, "increase"), append(args, 0, 0, 0, 0), src, dst)
	w.Buffers[0].Offset, w.Groups[0] = offset, size/4/32
	require.NoError(t, run(d, w))
	require.True(t, bytes.Equal(values, d.Contents(dst)), "a kernel reads the uploaded bytes")

	require.NoError(t, d.Upload(dst, 8, []byte("some bytes")))
	require.Equal(t, "some bytes", string(d.Contents(dst)[8:18]))
	require.NoError(t, d.Upload(src, 0, nil))
	require.Equal(t, size+10, d.Counters().UploadedBytes)
}

// TestUploadOfBrokenWords checks that an upload to a private buffer can have a partial word only at
// the end of the buffer.
func TestUploadOfBrokenWords(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	b := newBuffer(t, d, 102, metal.Private)
	require.NoError(t, d.Upload(b, 0, make([]byte, 102)))
	require.NoError(t, d.Upload(b, 100, make([]byte, 2)))
	require.Equal(t, 2, s.Sent("MTLBlitCommandEncoder", "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"))
	require.ErrorContains(t, d.Upload(b, 0, make([]byte, 10)), "multiples of 4")
	require.ErrorContains(t, d.Upload(b, 2, make([]byte, 100)), "multiples of 4")
}

func TestUploadFails(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	b := newBuffer(t, d, 100, metal.Private)
	require.ErrorContains(t, d.Upload(b, 90, make([]byte, 11)), "upload 11 bytes to byte 90 of a buffer of 100 bytes")
	require.ErrorContains(t, d.Upload(b, -1, nil), "to byte -1")
	require.ErrorContains(t, d.Upload(9, 0, nil), "buffer 9 does not exist")
	s.Fail(noBuffer, 1, "none") // the second buffer of the staging memory
	require.ErrorIs(t, d.Upload(b, 0, make([]byte, 100)), metal.ErrMemory)
	require.Equal(t, 100, d.Memory())
	s.Fail(gpuFault, 0, "the copy has failed")
	require.ErrorContains(t, d.Upload(b, 0, make([]byte, 100)), "the copy has failed")
	require.Zero(t, d.Counters().UploadedBytes)
	require.NoError(t, d.Upload(b, 0, make([]byte, 100)))
}
