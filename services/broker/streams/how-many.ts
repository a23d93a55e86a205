/** `1 message`, `2 messages`: a number with what is counted, in its singular or its plural. */
export const howMany = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`
