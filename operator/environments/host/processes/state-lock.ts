import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { InfrastructureError } from '../../../infrastructure/provider.ts'

export interface StateLock {
  release(): void
}

/** A database that is collected as garbage is closed, and its lock with it. */
const held = new Set<DatabaseSync>()

/** SQLite's result codes; the first is a lock that another connection holds. */
const sqliteBusy = 5
const sqliteReadOnly = 8
const sqliteFull = 13
const sqliteCannotOpen = 14
const sqliteNotADatabase = 26

/**
 * Makes the state folder this process's own, and the folder itself when it is missing. The lock is one of the
 * kernel's on the file `operator.lock`, which an open exclusive transaction of SQLite holds, the only way to
 * one that Node offers. So it goes with the process, however that ends: nothing is ever stale, and nothing is
 * taken over. It also holds between containers that share the folder, which see neither each other's
 * processes nor sockets.
 *
 * Throws an `InfrastructureError` that names the process which has the folder.
 */
export function lockStateDir(stateDir: string, pid: number = process.pid): StateLock {
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
    release() {
      if (held.delete(database)) database.close()
    },
  }
}

function isBusy(error: unknown): boolean {
  return (error as { errcode?: unknown }).errcode === sqliteBusy
}

const elsewhere = 'choose another folder with --state-dir'

function cannotLock(stateDir: string, error: unknown): InfrastructureError {
  return new InfrastructureError(`the state folder ${stateDir} cannot be locked: ${reasonOf(error)}`, {
    cause: error,
  })
}

/** Returns the cause of a system error and what to do about it. */
function reasonOf(error: unknown): string {
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
    // The owner has just taken the lock and has not yet written who it is.
  }
  return new InfrastructureError(
    `the state folder ${stateDir} is in use by ${owner}: stop that operator, or ${elsewhere}`,
  )
}
