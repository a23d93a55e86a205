import type { ProcessSession } from './process-session.ts'

/** The names of pods, each once, sorted. */
export function podNames(sessions: readonly ProcessSession[]): readonly string[] {
  return [...new Set(sessions.map(({ identity }) => identity.pod || identity.uid))].sort()
}
