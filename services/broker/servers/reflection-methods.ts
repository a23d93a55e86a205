import type { AnyMethod } from '@tollway/grpc/server.ts'

/** Both versions have the same messages; clients try the first one. */
const versions = ['v1', 'v1alpha'] as const

/**
 * Server reflection: the methods of `grpc.reflection.v1.ServerReflection` and its predecessor, which describe
 * these services. The descriptors are loaded by the first call, since most processes get none.
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
