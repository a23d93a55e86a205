/** The two decisions, as reported by a load. */
export const okAnswer = 'OK'
export const overAnswer = 'OVER_LIMIT'

/** `overall_code` is field 1, with which every answer begins. */
const overallCodeTag = 0x08
const codes = new Map([
  [1, okAnswer],
  [2, overAnswer],
])

/** Returns the overall code of a RateLimitResponse, without decoding the rest. */
export function readAnswer(message: Buffer): string {
  const code = message[0] === overallCodeTag ? message[1] : undefined
  return codes.get(code ?? -1) ?? `unknown answer: ${message.toString('hex')}`
}
