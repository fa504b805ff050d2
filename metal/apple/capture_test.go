package apple

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

func TestCapture(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 256, metal.Shared)
	path := filepath.Join(t.TempDir(), "step.gputrace")
	require.ErrorContains(t, d.StopCapture(), "no capture is running")
	require.NoError(t, d.StartCapture(path))
	require.ErrorContains(t, d.StartCapture(path), "another capture is running")
	require.NoError(t, run(d, one(p, nil, b), one(p, nil, b)))
	require.Equal(t, 2, s.Sent("MTLCommandEncoder", "pushDebugGroup:")) // each dispatch has a debug group with its name
	require.NoError(t, d.StopCapture())
	require.NoError(t, run(d, one(p, nil, b)))
	require.Equal(t, 2, s.Sent("MTLCommandEncoder", "popDebugGroup"))
	require.True(t, exists(path))
	require.ErrorContains(t, d.StartCapture(path), "the output file cannot be made") // the file exists already
	require.NoError(t, d.StartCapture(path+"2"))
	require.NoError(t, d.Close()) // Close also ends the capture
	require.Equal(t, 2, s.Sent("MTLCaptureManager", "stopCapture"))
}

func TestCaptureFails(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	path := filepath.Join(t.TempDir(), "step.gputrace")
	s.Fail(captureError, 0, "Capturing is not supported")
	require.ErrorContains(t, d.StartCapture(path), "step.gputrace: Capturing is not supported")
	s.Settings.Captures = 0
	require.ErrorContains(t, d.StartCapture(path), "MTL_CAPTURE_ENABLED=1")
	require.ErrorContains(t, d.StopCapture(), "no capture is running")
}
