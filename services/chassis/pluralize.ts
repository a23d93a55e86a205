/** `1 message`, `2 messages`: a number with its noun in singular or plural. */
export const pluralize = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`
