/** Formats with the digits that matter for a comparison: `12,345`, `67.8`, `1.23`, `0.042`. */
export function formatNumber(value: number): string {
  const size = Math.abs(value)
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 3
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
