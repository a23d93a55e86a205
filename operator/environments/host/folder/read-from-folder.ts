import { readFile, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ApiError, errorOfField } from '../../../api/errors.ts'
import { hashManifest, type ManifestRequest, type WrittenResource } from '../../../api/sources.ts'
import type { Source, SourcedResource } from '../../../kinds/source.ts'
import { findDocument, type ManifestName } from './replace-document.ts'

interface Declared {
  /** The path of the file after all symbolic links have been resolved. */
  readonly path: string
  /** Where the resource is declared, for people: `shop/limits.yaml#2`. */
  readonly origin: string
  readonly text: string
  /** The document that declares the resource, with its comments, without a document marker. */
  readonly document: string
}

/**
 * Returns a function that reads the document that declares a resource, with its comments. It rejects with an
 * `ApiError`: 404 if no file declares the resource, 409 if it is an item of a List.
 *
 * @param folder the folder of the manifests, or a single file
 */
export function readFromFolder(folder: string, source: Pick<Source, 'list'>) {
  return async ({ kind, namespace, name }: ManifestRequest): Promise<WrittenResource> => {
    const known = findDeclaration(source, { kind, namespace, name })
    if (known === undefined) {
      const message = `no file declares ${kind} ${namespace}/${name}`
      throw errorOfField('not-found', 'name', message)
    }
    const { document, origin } = await readDeclared(folder, known)
    return { manifest: document, version: hashManifest(document), origin }
  }
}

export function findDeclaration(
  source: Pick<Source, 'list'>,
  { kind, namespace, name }: ManifestName,
): SourcedResource | undefined {
  return source
    .list()
    .find(found => found.kind === kind && found.namespace === namespace && found.name === name)
}

/**
 * Reads the file that declares a resource. Rejects with an `ApiError` of status 409 for an item of a List.
 */
export async function readDeclared(folder: string, resource: SourcedResource): Promise<Declared> {
  const isFile = (await stat(folder)).isFile()
  const [origin = ''] = resource.origin.split('#')
  try {
    const path = await realpath(isFile ? folder : join(folder, origin))
    const text = await readFile(path, 'utf8')
    const found = findDocument(text, origin, resource)
    if ('problem' in found) throw new ApiError('conflict', found.problem)
    return { path, origin, text, document: found.text }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw new ApiError('conflict', `${origin} has just been removed; try again`)
  }
}
