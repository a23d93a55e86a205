import type { SourceProblem } from '../sources/source.ts'
import type { Gathered } from './choose-contents.ts'
import type { Memory } from './remembered.ts'

/**
 * The resources that were in force and stand in a file that cannot be read now. A source keeps what it has
 * read of such a file; after a restart it has read nothing, and only what is remembered keeps the limits
 * from being switched off. `present` are the uids of what the source does list.
 */
export function unreadableResources(
  memories: ReadonlyMap<string, Memory>,
  present: ReadonlySet<string>,
  problems: readonly SourceProblem[],
): readonly Gathered[] {
  if (problems.length === 0) return []
  const byFile = new Map(problems.map(problem => [fileOf(problem.origin), problem]))
  // What is said of a folder may be the reason why any file in it was not seen.
  const ofFolder = problems.find(({ origin }) => !/\.ya?ml$/.test(fileOf(origin)))
  return [...memories].flatMap(([uid, memory]) => {
    const problem = byFile.get(fileOf(memory.origin)) ?? ofFolder
    return present.has(uid) || problem === undefined ? [] : (asResource(uid, memory, problem) ?? [])
  })
}

/** `shop/limits.yaml#2.items[0]` stands in the file `shop/limits.yaml`. */
function fileOf(origin: string): string {
  return origin.replace(/#\d+(\.items\[\d+\])?$/, '')
}

function asResource(uid: string, memory: Memory, problem: SourceProblem): Gathered | undefined {
  if (memory.lastGood === undefined) return undefined
  const [namespace = '', name = ''] = memory.lastGood.name.split('/')
  const resource = {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    namespace,
    name,
    uid,
    generation: 0,
    spec: undefined,
    origin: memory.origin,
  }
  const message = `the resource cannot be read: ${problem.origin}: ${problem.message}`
  return { resource, memory, translation: { problems: [{ path: '', message }] } }
}
