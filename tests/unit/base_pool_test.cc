// What objects come out of and go back to: the pool of one thread, and the list between threads.
#include "base/pool.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/hand_over_stack.h"

namespace twinblock {
namespace {

TEST(Pool, AnObjectThatCameBackIsTakenNext) {
  Pool<int> pool;
  int& first = pool.take(1);
  int& second = pool.take(2);
  EXPECT_EQ(first, 1);
  pool.give_back(second);
  EXPECT_EQ(&pool.take(3), &second);
  EXPECT_EQ(second, 2) << "what its last use left is still there";
  EXPECT_EQ(pool.all().size(), 2U);
}

TEST(PoolDeathTest, NoneComesBackTwiceAndNoneIsTakenWhenAllAreFreed) {
  Pool<int> pool;
  int& only = pool.take(1);
  EXPECT_DEATH(pool.clear(), "has all its objects back");
  pool.give_back(only);
  EXPECT_DEATH(pool.give_back(only), "comes back twice");
  pool.clear();
  EXPECT_TRUE(pool.all().empty());
}

struct Item {
  int value = 0;
  Item* next = nullptr;
};

TEST(HandOverStack, TellsWhoHasToWakeTheTakerAndKeepsTheOrder) {
  HandOverStack<Item> stack;
  Item items[4] = {{0}, {1}, {2}, {3}};
  EXPECT_TRUE(stack.put(items[0]));
  EXPECT_FALSE(stack.put(items[1]));
  items[3].next = &items[2];
  EXPECT_FALSE(stack.put_chain(items[3], items[2]));
  int expected = 0;
  for (const Item* item = stack.take(); item != nullptr; item = item->next)
    EXPECT_EQ(item->value, expected++);
  EXPECT_EQ(expected, 4);
  EXPECT_EQ(stack.take(), nullptr);
  EXPECT_TRUE(stack.put(items[0]));
}

TEST(HandOverStack, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 3;
  constexpr int kEach = 20'000;
  HandOverStack<Item> stack;
  std::vector<std::vector<Item>> items(kThreads, std::vector<Item>(kEach));
  std::vector<std::thread> threads;
  for (std::vector<Item>& mine : items)
    threads.emplace_back([&stack, &mine] {
      for (int i = 0; i < kEach; ++i) {
        mine[i].value = i;
        stack.put(mine[i]);
      }
    });
  std::vector<int> next(kThreads, 0);
  for (int taken = 0; taken < kThreads * kEach;) {
    for (const Item* item = stack.take(); item != nullptr; item = item->next, ++taken) {
      int thread = 0;
      while (item < items[thread].data() || item >= items[thread].data() + kEach) ++thread;
      EXPECT_EQ(item->value, next[thread]++) << "in the order of its thread";
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace twinblock
