package apple

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

// pipeline is a kernel that is ready to run.
type pipeline struct {
	state id
	name  string
	info  metal.PipelineInfo
}

// Compile implements metal.Device. Each call runs on its own thread, since Metal can compile on
// several threads at once.
func (d *Device) Compile(src metal.Source, mode metal.Mode) (metal.Library, error) {
	if d.closed {
		return 0, fmt.Errorf("compile kernels %s: %w", src.Name, ErrClosed)
	}
	d.compiling.Lock()
	o := d.objc.forThread()
	d.compiling.Unlock()
	var made compiled
	var err error
	t := startThread(o)
	t.do(func() { made, err = d.compile(o, src, mode) })
	t.stop()
	d.compiling.Lock()
	defer d.compiling.Unlock()
	d.objc.owned += o.owned
	if err != nil {
		return 0, fmt.Errorf("compile kernels %s: %w", src.Name, err)
	}
	d.libraries = append(d.libraries, made.library)
	d.info.LanguageVersion, d.info.MathMode = made.language, made.math
	return metal.Library(len(d.libraries)), nil
}

// compiled is a library with the settings of its compilation.
type compiled struct {
	library        id
	language, math string
}

func (d *Device) compile(o *objc, src metal.Source, mode metal.Mode) (compiled, error) {
	options := o.instance("MTLCompileOptions")
	defer o.release(&options)
	o.send(options, optionsSetLanguage, languageVersion)
	d.setMath(o, options, mode)
	if mode == metal.Debug {
		one := o.string("1")
		key := o.string("INGOT_DEBUG")
		o.send(options, optionsSetMacros, o.send(o.classOf("NSDictionary"), dictionaryWith, uintptr(one), uintptr(key)))
	}
	version := o.send(options, optionsLanguage)
	if version != languageVersion {
		return compiled{}, fmt.Errorf("set the language version to %s: Metal uses %s; update macOS to 14 or later", versionText(languageVersion), versionText(version))
	}
	text := o.string(src.Text)
	if text == 0 {
		return compiled{}, errors.New("the source is not UTF-8")
	}
	library := o.own(id(o.send(d.device, deviceNewLibrary, uintptr(text), uintptr(options), o.failurePointer())))
	if library == 0 {
		return compiled{}, errors.New(o.failureText())
	}
	return compiled{library, versionText(version), d.mathText(o, options)}, nil
}

// setMath sets the precision of arithmetic. metal.FastMath is Metal's relaxed mode, which handles
// infinities, as attention needs. Systems without modes have a fast arithmetic that does not handle
// infinities, so there the driver always uses precise arithmetic. Functions such as exp are always
// precise, since Apple does not document how the fast versions handle infinities.
func (d *Device) setMath(o *objc, options id, mode metal.Mode) {
	if !d.features.mathMode {
		o.send(options, optionsSetFastMath, flag(false))
		return
	}
	math := uintptr(mathSafe)
	if mode == metal.FastMath {
		math = mathRelaxed
	}
	o.send(options, optionsSetMathMode, math)
	o.send(options, optionsSetMathFunctions, mathFunctionsPrecise)
}

func (d *Device) mathText(o *objc, options id) string {
	if !d.features.mathMode {
		if o.sendBool(options, optionsFastMath) {
			return "fast"
		}
		return "safe"
	}
	switch mode := o.send(options, optionsMathMode); mode {
	case mathSafe:
		return "safe"
	case mathRelaxed:
		return "relaxed"
	case mathFast:
		return "fast"
	default:
		return fmt.Sprint(mode)
	}
}

func versionText(v uintptr) string { return fmt.Sprintf("%d.%d", v>>16, v&0xffff) }

func flag(v bool) uintptr {
	if v {
		return 1
	}
	return 0
}

// Pipeline implements metal.Device. Function constants are uint in the kernels.
func (d *Device) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	if d.closed {
		return 0, fmt.Errorf("make a pipeline of kernel %s: %w", function, ErrClosed)
	}
	d.compiling.Lock()
	libraries := d.libraries
	d.compiling.Unlock()
	if lib == 0 || int(lib) > len(libraries) {
		return 0, fmt.Errorf("make a pipeline of kernel %s: library %d does not exist", function, lib)
	}
	made := pipeline{name: function}
	var err error
	d.thread.do(func() { err = d.makePipeline(&made, libraries[lib-1], constants) })
	if err != nil {
		return 0, fmt.Errorf("make a pipeline of kernel %s: %w", function, err)
	}
	d.pipelines = append(d.pipelines, made)
	d.counters.Pipelines++
	return metal.Pipeline(len(d.pipelines)), nil
}

func (d *Device) makePipeline(p *pipeline, library id, constants []metal.Constant) error {
	o := d.objc
	values := o.instance("MTLFunctionConstantValues")
	defer o.release(&values)
	for i := range constants {
		value := uintptr(unsafe.Pointer(&constants[i].Value))
		o.send(values, constantsSet, value, typeUInt, uintptr(constants[i].Index))
	}
	runtime.KeepAlive(constants)
	name := o.string(p.name)
	function := o.own(id(o.send(library, libraryNewFunction, uintptr(name), uintptr(values), o.failurePointer())))
	if function == 0 {
		return errors.New(o.failureText())
	}
	defer o.release(&function)
	p.state = o.own(id(o.send(d.device, deviceNewPipeline, uintptr(function), o.failurePointer())))
	if p.state == 0 {
		return errors.New(o.failureText())
	}
	p.info = metal.PipelineInfo{
		MaxThreads:        int(o.send(p.state, pipelineMaxThreads)),
		SimdWidth:         int(o.send(p.state, pipelineSimdWidth)),
		ThreadgroupMemory: int(o.send(p.state, pipelineThreadgroupMemory)),
	}
	return nil
}

// PipelineInfo implements metal.Device.
func (d *Device) PipelineInfo(p metal.Pipeline) metal.PipelineInfo {
	if p == 0 || int(p) > len(d.pipelines) {
		return metal.PipelineInfo{}
	}
	return d.pipelines[p-1].info
}
