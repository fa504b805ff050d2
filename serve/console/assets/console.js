"use strict";

// Pages work without this script. It refreshes the elements with the attribute data-live, and shows answers while they are generated.

const refreshEvery = 3000; // milliseconds

// refresh loads the page again and replaces its live parts. A part with the keyboard's focus is not replaced.
async function refresh() {
	if (document.hidden) return;
	const response = await fetch(location.href, { headers: { Accept: "text/html" } });
	if (!response.ok || response.redirected) return;
	const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
	for (const part of document.querySelectorAll("[data-live]")) {
		const next = fresh.getElementById(part.id);
		if (!part.isConnected || part.contains(document.activeElement)) continue;
		if (next && !part.isEqualNode(next)) part.replaceWith(document.importNode(next, true));
	}
}

if (document.querySelector("[data-live]")) {
	const again = () => setTimeout(() => refresh().catch(() => {}).finally(again), refreshEvery);
	again();
}

// events yields the data of a response's server-sent events.
async function* events(response) {
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let text = "";
	for (;;) {
		const { value, done } = await reader.read();
		if (done) return;
		text += value;
		const whole = text.split("\n\n");
		text = whole.pop();
		for (const event of whole) {
			if (event.startsWith("data: ")) yield event.slice("data: ".length);
		}
	}
}

// answer sends the form and shows the answer while it is generated.
async function answer(form, signal) {
	const section = document.getElementById("answer-section");
	const text = document.getElementById("answer");
	const figures = document.getElementById("figures");
	const reasoning = document.getElementById("reasoning");
	section.hidden = false;
	reasoning.hidden = true;
	reasoning.lastElementChild.textContent = text.textContent = figures.textContent = "";
	const started = performance.now();
	let first = 0;
	const response = await fetch(form.action, {
		method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "text/event-stream" }, signal,
	});
	if (!response.ok) {
		const failure = await response.json();
		throw new Error(failure.error.message);
	}
	for await (const data of events(response)) {
		if (data === "[DONE]") return;
		const chunk = JSON.parse(data);
		if (chunk.error) throw new Error(chunk.error.message);
		for (const choice of chunk.choices) {
			const { content = choice.text, reasoning_content: thought } = choice.delta || {}; // a completion has a text, a chat a delta
			if ((content || thought) && !first) first = performance.now();
			if (thought) {
				reasoning.hidden = false;
				reasoning.lastElementChild.append(thought);
			}
			if (content) text.append(content);
		}
		if (chunk.usage) {
			const { prompt_tokens: prompt, completion_tokens: made } = chunk.usage;
			const ended = performance.now();
			const wait = first ? `first token after ${Math.round(first - started)} ms, ` : "";
			const speed = first && made > 1 ? `, ${((made - 1) / ((ended - first) / 1000)).toFixed(1)} tokens/s` : "";
			figures.textContent = `${prompt} tokens in the prompt, ${wait}${made} tokens in the answer${speed}`;
		}
	}
	throw new Error("The connection was closed before the end of the answer.");
}

const form = document.getElementById("try");
if (form) {
	const stop = document.getElementById("stop");
	const submit = form.querySelector("button.main");
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		const abort = new AbortController();
		stop.onclick = () => abort.abort();
		stop.hidden = false;
		submit.disabled = true;
		try {
			await answer(form, abort.signal);
		} catch (failure) {
			document.getElementById("figures").textContent = failure.name === "AbortError" ? "Stopped." : failure.message;
		}
		stop.hidden = true;
		submit.disabled = false;
	});
	const mode = form.elements.mode;
	const showMode = () => { document.getElementById("system").hidden = mode.value === "continue"; };
	mode.addEventListener("change", showMode);
	showMode();
	form.addEventListener("keydown", (event) => {
		if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) form.requestSubmit();
	});
}
