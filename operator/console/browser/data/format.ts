const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })

export const formatCount = (value: number) => whole.format(value)

/** A rate: with a digit after the point below 100. */
export const formatRate = (value: number) => (value < 100 ? short : whole).format(value)

export const formatMs = (value: number) => (value < 10 ? `${value.toFixed(2)} ms` : `${formatRate(value)} ms`)

export const formatSeconds = (seconds: number) => `${seconds.toFixed(2)} s`

/** `4 s`, `3 min`, `2 h`, `5 d`. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} d`
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 1024 * 1024) return `${short.format(bytes / 1024)} KiB`
  return `${short.format(bytes / 1024 / 1024)} MiB`
}

export const formatTime = (atMs: number) => new Date(atMs).toTimeString().slice(0, 8)

const maxShown = 120

/**
 * Returns a text of users for display: control characters and marks of the writing direction, which could
 * change how the text around them reads, become their codes, and the middle of a long text is left out.
 */
export function displayText(text: string, length = maxShown): string {
  const end = 20
  const cut =
    text.length <= length
      ? text
      : `${text.slice(0, length - end)}… ${formatCount(text.length)} characters …${text.slice(-end)}`
  return cut.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{d800}-\u{dfff}]/gu,
    mark => `\\u{${(mark.codePointAt(0) ?? 0).toString(16)}}`,
  )
}

/** `user=alice, path=/pay`. */
export const displayEntries = (entries: readonly { readonly key: string; readonly value: string }[]) =>
  entries.map(({ key, value }) => `${displayText(key)}=${displayText(value)}`).join(', ')
