package computetest

import (
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

type unbiased struct{ site }

func (s unbiased) Route(dst, x compute.Tensor, router, _ compute.Weight, shape compute.RouteShape) {
	s.Step.Route(dst, x, router, nil, shape)
}

func (s unbiased) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	e.GateBias, e.UpBias = nil, nil
	s.Step.GatedExperts(dst, x, routing, e)
}

func (s unbiased) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	e.DownBias = nil
	s.Step.ExpertsAdd(dst, h, routing, e)
}

type unnormalised struct{ site }

func (s unnormalised) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	shape.Normalise = false
	s.Step.Route(dst, x, router, bias, shape)
}

type reversed struct{ site }

func (s reversed) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	s.Step.Route(dst, x, router, bias, shape)
	for _, row := range s.be.Floats(dst) {
		slices.Reverse(row[:shape.Used])
		slices.Reverse(row[shape.Used:])
	}
}

type lastOfEquals struct{ site }

func (s lastOfEquals) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	s.Step.Route(dst, x, router, bias, shape)
	for _, row := range s.be.Floats(dst) {
		for k := range row[:shape.Used] {
			row[k] = float32(shape.Experts-1) - row[k]
		}
	}
}

type unshared struct{ site }

func (s unshared) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	e.SharedGate = nil
	s.Step.GatedExperts(dst, x, routing, e)
}

func (s unshared) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	e.SharedDown = nil
	s.Step.ExpertsAdd(dst, h, routing, e)
}
