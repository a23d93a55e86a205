import { type DescFile, type DescMessage, fromJson, toBinary, toJson } from '@bufbuild/protobuf'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { StatusSchema } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'

/** Takes a `ServerReflectionRequest` of gRPC, returns a `ServerReflectionResponse`, both encoded. */
export type ReflectionAnswers = (request: Uint8Array) => Uint8Array

/** The field numbers of both messages, from gRPC's reflection.proto. */
const asked = { fileByName: 3, fileOfSymbol: 4, services: 7 } as const
const answered = { host: 1, request: 2, files: 4, services: 6, error: 7 } as const

/**
 * The packages of the service. The definition that is compiled in has the first; the definition with the
 * second differs only in this name.
 */
const packages = ['neutral_ace', 'nvidia_ace'] as const

interface DescribedFile {
  readonly bytes: Uint8Array
  readonly dependencies: readonly string[]
}

/** @param services full names, of the services that are listed and described */
export function createReflectionAnswers(services: readonly string[]): ReflectionAnswers {
  const files = new Map<string, DescribedFile>()
  const fileOfSymbol = new Map<string, string>()
  for (const name of packages.filter(name => services.some(service => service.startsWith(`${name}.`)))) {
    for (const file of withDependencies(StatusSchema.file)) addFile(file, name)
  }

  function addFile(file: DescFile, packageName: string): void {
    const rename = (text: string) => text.replaceAll(packages[0], packageName)
    const json = rename(JSON.stringify(toJson(FileDescriptorProtoSchema, file.proto)))
    const proto = fromJson(FileDescriptorProtoSchema, JSON.parse(json))
    const { name, dependency } = proto
    files.set(name, { bytes: toBinary(FileDescriptorProtoSchema, proto), dependencies: dependency })
    for (const symbol of listSymbols(file)) fileOfSymbol.set(rename(symbol), name)
  }

  function collect(name: string, found = new Map<string, Uint8Array>()): readonly Uint8Array[] {
    const file = files.get(name)
    if (file === undefined || found.has(name)) return [...found.values()]
    found.set(name, file.bytes)
    for (const dependency of file.dependencies) collect(dependency, found)
    return [...found.values()]
  }

  return bytes => {
    const { field, text, host } = readRequest(bytes)
    const writer = new BinaryWriter()
    writer.tag(answered.host, WireType.LengthDelimited).string(host)
    writer.tag(answered.request, WireType.LengthDelimited).bytes(bytes)
    if (field === asked.services) writeServices(writer, services)
    else if (field === asked.fileByName) writeFiles(writer, collect(text))
    else if (field === asked.fileOfSymbol) writeFiles(writer, collect(fileOfSymbol.get(text) ?? ''))
    else writeError(writer, 'NOT_FOUND', 'the services have no extensions')
    return writer.finish()
  }
}

/**
 * Reads a request.
 *
 * @throws GrpcError for bytes that are not a request
 */
function readRequest(bytes: Uint8Array) {
  let [field, text, host] = [0, '', '']
  try {
    const reader = new BinaryReader(bytes)
    while (reader.pos < reader.len) {
      const [number, type] = reader.tag()
      if (number === 1 && type === WireType.LengthDelimited) host = reader.string()
      else {
        field = number
        if (type === WireType.LengthDelimited) text = readText(reader)
        else reader.skip(type)
      }
    }
  } catch {
    throw new GrpcError('INVALID_ARGUMENT', 'the request is not a ServerReflectionRequest')
  }
  return { field, text, host }
}

/** Reads a text. A field that is a message gives garbage, which no answer uses. */
const readText = (reader: BinaryReader) => Buffer.from(reader.bytes()).toString('utf8')

function writeServices(writer: BinaryWriter, services: readonly string[]): void {
  writer.tag(answered.services, WireType.LengthDelimited).fork()
  for (const name of services) {
    writer.tag(1, WireType.LengthDelimited).fork()
    writer.tag(1, WireType.LengthDelimited).string(name)
    writer.join()
  }
  writer.join()
}

function writeFiles(writer: BinaryWriter, files: readonly Uint8Array[]): void {
  if (files.length === 0) {
    writeError(writer, 'NOT_FOUND', 'there is no such file or symbol')
    return
  }
  writer.tag(answered.files, WireType.LengthDelimited).fork()
  for (const file of files) writer.tag(1, WireType.LengthDelimited).bytes(file)
  writer.join()
}

function writeError(writer: BinaryWriter, code: 'NOT_FOUND', message: string): void {
  writer.tag(answered.error, WireType.LengthDelimited).fork()
  writer.tag(1, WireType.Varint).int32(statusCodes[code])
  writer.tag(2, WireType.LengthDelimited).string(message)
  writer.join()
}

const withDependencies = (file: DescFile): readonly DescFile[] => [
  file,
  ...file.dependencies.flatMap(withDependencies),
]

function listSymbols({ messages, enums, services }: DescFile): readonly string[] {
  const names = (descriptors: readonly { readonly typeName: string }[]) =>
    descriptors.map(({ typeName }) => typeName)
  return [
    ...names(enums),
    ...messages.flatMap(listMessageSymbols),
    ...services.flatMap(({ typeName, methods }) => [
      typeName,
      ...methods.map(({ name }) => `${typeName}.${name}`),
    ]),
  ]
}

function listMessageSymbols({ typeName, nestedMessages, nestedEnums }: DescMessage): readonly string[] {
  return [
    typeName,
    ...nestedEnums.map(nested => nested.typeName),
    ...nestedMessages.flatMap(listMessageSymbols),
  ]
}
