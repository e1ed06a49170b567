// Where a replacement really changes a text. Knows nothing about VS Code.

/** `added` takes the place of `removed` characters (UTF-16 units) from the offset `start` on; its line ends are "\n". */
export interface Place {
	start: number;
	removed: number;
	added: string;
}

/** A replacement of text[from:to] without what both have in common at their ends, never a part of a character. */
export function placed(text: string, from: number, to: number, replacement: string): Place {
	const crlf = text.includes("\r\n");
	const old = text.slice(from, to);
	const now = crlf ? replacement.replaceAll(/\r?\n/g, "\r\n") : replacement;
	const shorter = Math.min(old.length, now.length);
	let head = 0;
	while (head < shorter && old[head] === now[head]) {
		head++;
	}
	while (splits(old, head) || splits(now, head)) {
		head--;
	}
	let tail = 0;
	while (tail < shorter - head && old.at(-1 - tail) === now.at(-1 - tail)) {
		tail++;
	}
	while (splits(old, old.length - tail) || splits(now, now.length - tail)) {
		tail--;
	}
	const added = now.slice(head, now.length - tail).replaceAll("\r\n", "\n");
	return { start: from + head, removed: old.length - head - tail, added };
}

/** Whether a cut at `at` would part a surrogate pair or a line end. */
function splits(text: string, at: number): boolean {
	return at > 0 && at < text.length && /^(?:[\uD800-\uDBFF][\uDC00-\uDFFF]|\r\n)$/.test(text.slice(at - 1, at + 1));
}
