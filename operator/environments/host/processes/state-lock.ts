import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { InfrastructureError } from '../../../infrastructure/provider.ts'

/** Keeps the databases referenced: when one is garbage-collected, it is closed and its lock is released. */
const held = new Set<DatabaseSync>()

/** Result codes of SQLite. `sqliteBusy` means that another connection has the lock. */
const sqliteBusy = 5
const sqliteReadOnly = 8
const sqliteFull = 13
const sqliteCannotOpen = 14
const sqliteNotADatabase = 26

/**
 * Locks the state folder for this process, and creates the folder if it does not exist. The lock is a kernel
 * lock on the file `operator.lock`. An open exclusive transaction of SQLite holds it, because Node has no
 * other access to kernel locks. The lock ends with the process, so it is never stale. It also works between
 * containers that share the folder, although the containers see neither processes nor sockets of each other.
 *
 * Throws an `InfrastructureError` that names the process with the lock.
 */
export function lockStateDir(stateDir: string, pid: number = process.pid) {
  let database: DatabaseSync
  try {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 })
    database = new DatabaseSync(join(stateDir, 'operator.lock'))
  } catch (error) {
    throw cannotLock(stateDir, error)
  }
  const pidFile = join(stateDir, 'operator.pid')
  try {
    database.exec('BEGIN EXCLUSIVE')
    writeFileSync(pidFile, `${pid}\n`)
  } catch (error) {
    database.close()
    throw isBusy(error) ? inUse(stateDir, pidFile) : cannotLock(stateDir, error)
  }
  held.add(database)
  return {
    release(): void {
      if (held.delete(database)) database.close()
    },
  }
}

function isBusy(error: unknown): boolean {
  return (error as { errcode?: unknown }).errcode === sqliteBusy
}

const elsewhere = 'choose another folder with --state-dir'

function cannotLock(stateDir: string, error: unknown): InfrastructureError {
  return new InfrastructureError(`the state folder ${stateDir} cannot be locked: ${describeCause(error)}`, {
    cause: error,
  })
}

function describeCause(error: unknown): string {
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message: string }
  if (code === 'EEXIST' || code === 'ENOTDIR') return `it is a file, not a folder: ${elsewhere}`
  if (code === 'ENOSPC' || errcode === sqliteFull) return `the disk is full: make room, or ${elsewhere}`
  if (code === 'EACCES' || code === 'EROFS' || errcode === sqliteCannotOpen || errcode === sqliteReadOnly) {
    return `this user may not write there (${message}): ${elsewhere}`
  }
  if (errcode === sqliteNotADatabase) {
    return `its file operator.lock was written by something else: remove that file, or ${elsewhere}`
  }
  return message
}

function inUse(stateDir: string, pidFile: string): InfrastructureError {
  let owner = 'another process'
  try {
    owner = `process ${Number.parseInt(readFileSync(pidFile, 'utf8'), 10)}`
  } catch {
    // The owner has just taken the lock and not written its process id yet.
  }
  return new InfrastructureError(
    `the state folder ${stateDir} is in use by ${owner}: stop that operator, or ${elsewhere}`,
  )
}
