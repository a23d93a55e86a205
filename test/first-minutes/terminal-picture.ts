const columns = 100
const charWidth = 7.83
const lineHeight = 18
const margin = 16
const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }

/**
 * Returns an SVG of a terminal of 100 columns. Lines that begin with `$ ` are shown as input. The picture has
 * its own background, so that it is readable on light and on dark pages, and it loads no fonts.
 */
export function terminalPicture(title: string, lines: readonly string[]): string {
  const rows = lines.flatMap(line => {
    const kind = line.startsWith('$ ') ? 'typed' : 'said'
    const parts = line.match(new RegExp(`.{1,${columns}}`, 'g')) ?? ['']
    return parts.map(text => ({ kind, text }))
  })
  const width = Math.ceil(columns * charWidth + 2 * margin)
  const height = rows.length * lineHeight + 2 * margin
  const texts = rows.map(({ kind, text }, index) => {
    const y = margin + index * lineHeight + 13
    return `  <text class="${kind}" x="${margin}" y="${y}" xml:space="preserve">${escapeXml(text)}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">
  <title>${escapeXml(title)}</title>
  <style>
    text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
    .typed { fill: #7ee787; font-weight: bold }
    .said { fill: #e6edf3 }
  </style>
  <rect width="${width}" height="${height}" rx="8" fill="#161b22" stroke="#6e7681"/>
${texts.join('\n')}
</svg>
`
}

/** Returns the text of a picture, without the breaks of its lines. */
export function textOfPicture(picture: string): string {
  const rows = [...picture.matchAll(/<text [^>]*>(.*)<\/text>/g)].map(([, text = '']) => text)
  return Object.entries(escapes).reduceRight(
    (text, [char, escaped]) => text.replaceAll(escaped, char),
    rows.join(''),
  )
}

const escapeXml = (text: string) => text.replace(/[&<>]/g, char => escapes[char] ?? char)
