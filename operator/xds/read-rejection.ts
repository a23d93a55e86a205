/** The maximum length of a rejection, in characters; the rest is ignored. */
const maxMessageChars = 16 * 1024
/** The maximum length of the reason for one resource, in characters; the rest is cut. */
const maxTextChars = 1024

const partOfName = /[\w./-]/
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu

/**
 * Returns the resources that a rejection names, each with its reason. A line names a resource by `<name>:
 * <text>`, with or without words before it, as the pods of the services and envoyproxy/ratelimit write it. Of
 * several names in a line, the one that begins first counts; of names that begin at the same place, the
 * longest. The map is empty when no line names one of `names`.
 */
export function readRejection(message: string, names: Iterable<string>): ReadonlyMap<string, string> {
  const text = message.slice(0, maxMessageChars)
  const byLine = new Map<number, { readonly name: string; readonly at: number }>()
  for (const name of names) {
    for (const at of findPositions(name, text)) {
      const line = text.lastIndexOf('\n', at) + 1
      const best = byLine.get(line)
      const isBetter = !best || at < best.at || (at === best.at && name.length > best.name.length)
      if (isBetter) byLine.set(line, { name, at })
    }
  }
  const texts = new Map<string, string>()
  for (const [line, { name, at }] of byLine) {
    const end = text.indexOf('\n', line)
    const reason = text.slice(at + name.length + 2, end === -1 ? undefined : end)
    texts.set(name, rejectionText(texts.has(name) ? `${texts.get(name)}; ${reason}` : reason))
  }
  return texts
}

/** Returns a rejection as one printable line of at most `maxTextChars`; never empty. */
export function rejectionText(message: string): string {
  const shown = message.slice(0, maxTextChars).replace(unprintable, ' ').trim()
  return shown === '' ? 'no reason was given' : shown
}

/** Yields the positions of `<name>: ` in the text, except where it is the end of a longer name. */
function* findPositions(name: string, text: string): Generator<number> {
  const wanted = `${name}: `
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + 1)) {
    if (at === 0 || !partOfName.test(text.charAt(at - 1))) yield at
  }
}
