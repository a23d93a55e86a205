import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createFileRegistry, fromBinary } from '@bufbuild/protobuf'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import { Client, credentials } from '@grpc/grpc-js'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { animationServices } from './grpc-methods.ts'
import { reflectionMethods } from './reflection-methods.ts'

const { specified, public: publicName } = animationServices

/** Starts a server and a client, which asks with one field of text and reads the fields of the answer. */
async function start(t: TestContext, services: readonly string[] = [specified]) {
  const server = createGrpcServer({ methods: reflectionMethods(services), onDefect: assert.fail })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  const client = new Client(`127.0.0.1:${bound.port}`, credentials.createInsecure())
  t.after(() => client.close())
  const same = (bytes: Buffer) => bytes
  return async (field: number, text: string, version = 'v1') => {
    const path = `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`
    const call = client.makeBidiStreamRequest(path, same, same)
    const request = new BinaryWriter()
    request.tag(field, WireType.LengthDelimited).string(text)
    call.write(Buffer.from(request.finish()))
    call.end()
    const [answer] = await call.toArray()
    return readFields(answer)
  }
}

/** Returns the values of length-delimited fields, and of numbers, by their field number. */
function readFields(bytes: Uint8Array): ReadonlyMap<number, readonly (Uint8Array | number)[]> {
  const fields = new Map<number, (Uint8Array | number)[]>()
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag()
    const value = type === WireType.Varint ? reader.int32() : reader.bytes()
    fields.set(number, [...(fields.get(number) ?? []), value])
  }
  return fields
}

type Fields = ReturnType<typeof readFields>
const inner = (fields: Fields, number: number) => readFields(fields.get(number)?.[0] as Uint8Array)
const filesIn = (fields: Fields) =>
  (inner(fields, 4).get(1) ?? []).map(bytes => fromBinary(FileDescriptorProtoSchema, bytes as Uint8Array))

for (const version of ['v1', 'v1alpha']) {
  test(`reflection ${version} lists the services, and describes them with their dependencies`, async t => {
    const ask = await start(t, [specified, publicName])
    const listed = inner(await ask(7, '', version), 6).get(1) ?? []
    assert.deepEqual(
      listed.map(service => String(Buffer.from(readFields(service as Uint8Array).get(1)?.[0] as Uint8Array))),
      [specified, publicName],
    )
    for (const service of [specified, publicName]) {
      // The registry wants each file after those that it imports.
      const file = filesIn(await ask(4, service, version)).reverse()
      const registry = createFileRegistry({ $typeName: 'google.protobuf.FileDescriptorSet', file } as never)
      const methods = registry.getService(service)?.methods.map(({ name, input }) => [name, input.typeName])
      const [prefix] = service.split('.AnimationDataService')
      assert.deepEqual(methods, [
        ['PushAnimationDataStream', `${prefix}.AnimationDataStream`],
        ['PullAnimationDataStream', `${prefix}.AnimationIds`],
      ])
    }
  })
}

test('reflection finds files and symbols by their names', async t => {
  const ask = await start(t)
  const path = 'neutral_ace/services/animation_data/v1/animation_data.proto'
  assert.equal(filesIn(await ask(3, path))[0]?.name, path)
  assert.equal(filesIn(await ask(3, 'google/protobuf/any.proto')).length, 1)
  for (const symbol of [`${specified}.PullAnimationDataStream`, 'google.protobuf.Any']) {
    assert.ok(filesIn(await ask(4, symbol)).length > 0, symbol)
  }
})

test('reflection answers an unknown name with NOT_FOUND', async t => {
  const ask = await start(t)
  for (const [field, text] of [
    [3, 'no/such.proto'],
    [4, publicName],
    [4, ''],
    [5, 'google.protobuf.Any'],
    [6, 'google.protobuf.Any'],
    [99, ''],
  ] as const) {
    assert.deepEqual(inner(await ask(field, text), 7).get(1), [5], `${field} ${text}`)
  }
})
