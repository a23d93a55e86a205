const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const signed = new Intl.NumberFormat('en', { maximumFractionDigits: 0, signDisplay: 'exceptZero' })
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })

export const formatCount = (value: number | bigint) => whole.format(value)

/** Formats a change with a sign: `+51`, `−3`, `0`. */
export const formatChange = (change: number) => signed.format(change).replace('-', '−')

/**
 * Formats a share from 0 to 1: `0 %`, `<1 %`, `67 %`, `>99 %`. Only exactly 0 and 1 are shown as 0 % and 100
 * %.
 */
export function formatShare(share: number): string {
  if (share > 0 && share < 0.01) return '<1 %'
  if (share > 0.99 && share < 1) return '>99 %'
  return `${Math.round(share * 100)} %`
}

export const formatRate = (value: number) => (value < 100 ? short : whole).format(value)

export const formatMs = (value: number) => (value < 10 ? `${value.toFixed(2)} ms` : `${formatRate(value)} ms`)

export const formatSeconds = (seconds: number) => `${seconds.toFixed(2)} s`

/** Formats an age: `4 s`, `3 min`, `2 h`, `5 d`. */
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

/** Formats a Unix time in milliseconds as `2026-08-01 14:03:21`, in the time zone of the browser. */
export const formatMoment = (atMs: number) => new Date(atMs).toLocaleString('sv')

export const formatTime = (atMs: number) => new Date(atMs).toTimeString().slice(0, 8)

/** Formats a Unix time in milliseconds as `14:03:21.250`. */
export const formatTimeMs = (atMs: number) =>
  `${formatTime(atMs)}.${`${Math.floor(atMs) % 1000}`.padStart(3, '0')}`

/** Formats an amount in the smallest unit of its currency: `491.65 DKK`. */
export function formatCurrency({ currency, amount, exponent }: Money): string {
  const digits = amount.replace('-', '').padStart(exponent + 1, '0')
  const [units, rest] = [digits.slice(0, digits.length - exponent), digits.slice(digits.length - exponent)]
  const sign = amount.startsWith('-') ? '−' : ''
  return `${sign}${formatCount(BigInt(units))}${rest && `.${rest}`} ${currency}`
}

interface Money {
  readonly currency: string
  /** The amount in the smallest unit: digits, after a minus sign if it is negative. */
  readonly amount: string
  readonly exponent: number
}

const maxShown = 120

/**
 * Makes a text of a user safe for display: control characters, and characters that change the direction of
 * text, become their codes, and a long text is shortened in the middle.
 */
export function displayText(text: string, length = maxShown): string {
  const end = 20
  const cut =
    text.length <= length
      ? text
      : `${text.slice(0, length - end)}… ${formatCount(text.length)} characters …${text.slice(-end)}`
  return cut.replaceAll(hiddenCharacters, escapeMark)
}

const hiddenCharacters = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{d800}-\u{dfff}]/gu

const escapeMark = (mark: string) => `\\u{${(mark.codePointAt(0) ?? 0).toString(16)}}`

/**
 * Returns the first line, from 1, with characters that `displayText` replaces by codes, and these codes. An
 * editor cannot replace characters, so it warns about them.
 */
export function findHiddenCharacters(
  text: string,
): { readonly line: number; readonly codes: string } | undefined {
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const found = line.replaceAll('\t', '').match(hiddenCharacters)
    if (found) return { line: index + 1, codes: [...new Set(found.map(escapeMark))].slice(0, 5).join(' ') }
  }
  return undefined
}

export const displayEntries = (entries: readonly { readonly key: string; readonly value: string }[]) =>
  entries.map(({ key, value }) => `${displayText(key)}=${displayText(value)}`).join(', ')
