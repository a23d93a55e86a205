/**
 * Parses an integer of a command line.
 *
 * @param option for the message: `--rounds`
 * @throws Error with the value that was found and the allowed ones
 */
export function readCount(option: string, text: string, max: number): number {
  if (/^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= max) return Number(text)
  throw new Error(`${option} is '${text}'; it must be a whole number from 1 to ${max}`)
}
