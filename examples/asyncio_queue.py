"""A producer and three consumers share a bounded queue; then a slow task times out."""

import asyncio

DONE = object()


async def produce(queue, count, consumers):
    for number in range(count):
        await queue.put(number)
    for _ in range(consumers):
        await queue.put(DONE)


async def consume(queue, squares):
    consumed = 0
    while (number := await queue.get()) is not DONE:
        await asyncio.sleep(0.001)
        squares[number] = number * number
        consumed += 1
    return consumed


async def main():
    queue = asyncio.Queue(maxsize=4)
    squares = {}
    async with asyncio.TaskGroup() as group:
        group.create_task(produce(queue, 20, consumers=3))
        consumers = [group.create_task(consume(queue, squares)) for _ in range(3)]
    print("squares:", [squares[number] for number in sorted(squares)])
    print("consumed:", sum(task.result() for task in consumers))

    try:
        async with asyncio.timeout(0.05):
            await asyncio.sleep(60)
    except TimeoutError:
        print("the slow one was given up")


asyncio.run(main())
