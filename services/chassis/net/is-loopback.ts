/** Returns whether the host is a loopback address, `localhost`, or a name below `localhost`. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  if (name === 'localhost' || name.endsWith('.localhost') || name === '::1') return true
  return /^(::ffff:)?127(\.\d{1,3}){3}$/.test(name)
}
