import type { AnyMethod } from '@tollway/grpc/server.ts'

/** The versions of reflection, which have the same messages; clients try `v1` first. */
const versions = ['v1', 'v1alpha'] as const

/**
 * Returns the methods of server reflection for these services. The descriptors are imported at the first
 * call, since most processes get none.
 */
export function reflectionMethods(services: readonly string[]): readonly AnyMethod[] {
  const load = async () => (await import('./reflection-answers.ts')).createReflectionAnswers(services)
  let answers: ReturnType<typeof load> | undefined
  return versions.map(version => ({
    path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    kind: 'bidi',
    decode: (bytes: Uint8Array) => bytes,
    encode: (bytes: Uint8Array) => bytes,
    async *handle(requests: AsyncIterable<Uint8Array>) {
      answers ??= load()
      const answer = await answers
      for await (const request of requests) yield answer(request)
    },
  }))
}
