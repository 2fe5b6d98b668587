import { useEffect, useRef, useState } from 'react'

/** A value that changes at most once per interval, in milliseconds; the last one always comes through. */
export function useCalm<Value>(value: Value, restMs: number): Value {
  const [calm, setCalm] = useState(value)
  const last = useRef(0)
  useEffect(() => {
    const wait = Math.max(0, last.current + restMs - Date.now())
    const timer = setTimeout(() => {
      last.current = Date.now()
      setCalm(value)
    }, wait)
    return () => clearTimeout(timer)
  }, [value, restMs])
  return restMs === 0 ? value : calm
}
