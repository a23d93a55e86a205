import type { Identity } from './issue.ts'

/** The certificate for handshakes with its key, which is secret, and the trusted authorities. */
export interface Credentials extends Identity {
  readonly ca: string
}

/** The credentials of this process, as they were read last. */
export interface HeldCredentials {
  /** undefined until they were read for the first time. */
  current(): Credentials | undefined
  /** @throws Error until there are credentials */
  required(): Credentials
  set(credentials: Credentials): void
  /** Resolves when there are credentials. */
  ready(): Promise<void>
  /** Calls the listener after each change, until the returned function is called. */
  onChange(listener: () => void): () => void
}

export function createHeldCredentials(): HeldCredentials {
  const listeners = new Set<() => void>()
  const { promise: ready, resolve: onReady } = Promise.withResolvers<void>()
  let current: Credentials | undefined
  return {
    current: () => current,
    required() {
      if (current === undefined) throw new Error('the operator has no certificate yet')
      return current
    },
    set(credentials) {
      const { cert, key, ca } = credentials
      if (cert === current?.cert && key === current.key && ca === current.ca) return
      current = { cert, key, ca }
      onReady()
      for (const listener of [...listeners]) listener()
    },
    ready: () => ready,
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
