import type { SecretFiles, Workload } from '../../../../translated-types.ts'

/** The only writable folder of a replica, and the size at which the pod is evicted. */
const scratch = { name: 'tmp', path: '/tmp', sizeLimit: '256Mi' } as const
/** The file mode: only the owner and the group of the pod can read. */
const secretFileMode = 0o440

export function makeVolumes({ secretFiles = [] }: Pick<Workload, 'secretFiles'>) {
  return [
    { name: scratch.name, emptyDir: { sizeLimit: scratch.sizeLimit } },
    ...secretFiles.map(files => ({ name: files.name, secret: secretSource(files) })),
  ]
}

/** The pod starts before its Secret exists; the files appear later. */
function secretSource({ secretName, keys }: SecretFiles) {
  return {
    secretName,
    optional: true,
    defaultMode: secretFileMode,
    ...(keys === undefined ? {} : { items: keys.map(key => ({ key, path: key })) }),
  }
}

export function makeVolumeMounts({ secretFiles = [] }: Pick<Workload, 'secretFiles'>) {
  return [
    { name: scratch.name, mountPath: scratch.path },
    ...secretFiles.map(({ name, folder }) => ({ name, mountPath: folder, readOnly: true })),
  ]
}
